"""The products of matrices that convolutions are in CUDA, whose operands are gathered from images.

    convolution               y[pixel, f]     = Σ x[pixel meets tap, c] · weight[tap, c, f]
    transposed_convolution    x[pixel, c]     = Σ d[pixel meets tap, f] · weight[tap, c, f]
    convolution_weight        w[(tap, c), f]  = Σ x[pixel meets tap, c] · d[pixel, f]

Nothing of it lies in memory as a matrix (implicit GEMM: Chetlur et al., cuDNN: Efficient Primitives
for Deep Learning, 2014). Groups are products beside each other; so are the phases of a transposed
convolution with a stride.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from noeira.codegen.kernels.convolution.cuda_phases import Phases, phases_of
from noeira.codegen.kernels.gemm.product import Gemm
from noeira.codegen.lower import RESULT, operand_id
from noeira.ir.body import Body
from noeira.ir.geometry import Geometry, Sizes, arranged
from noeira.ir.ops.convolution import Convolving

FORWARD, ADJOINT, WEIGHT = "convolution", "transposed_convolution", "convolution_weight"


@dataclass(frozen=True, kw_only=True)
class Convolved(Gemm):
    """The product that an op is, for each group and phase: `kind` is the name of the op. headed:
    whether element-wise ops before it make the first operand.
    """

    kind: str
    geometry: Geometry
    headed: bool = False

    @property
    def one_channel(self) -> bool:
        """Whether each of several groups has one channel, which makes no product in tiles."""
        return self.geometry.groups > 1 and self.geometry.channels_of_group == 1

    @property
    def width(self) -> int:
        """Elements in memory between rows of C: the columns of all groups."""
        return self.n * self.geometry.groups

    @property
    def rows(self) -> int:
        """Rows of C of all phases."""
        g = self.geometry
        if self.kind == FORWARD:
            return g.batch * g.pixels
        return g.batch * math.prod(g.size) if self.kind == ADJOINT else self.m

    @property
    def size(self) -> int:
        return self.rows * self.width

    @property
    def flat(self) -> bool:
        """Whether the one tap there is meets every pixel at its own place: an ordinary product, of
        operands as they lie.
        """
        g = self.geometry
        plain = set(g.stride) == {1} and not any((*g.before, *g.after))
        return plain and g.taps == 1 and not self.headed

    @cached_property
    def phases(self) -> tuple[Phases, ...]:
        """Those along each axis of a transposed convolution, none of the others."""
        return phases_of(self.geometry) if self.kind == ADJOINT else ()

    @property
    def phase_count(self) -> int:
        """Phases along all axes."""
        return math.prod(axis.count for axis in self.phases)

    @property
    def most_taps(self) -> int:
        """Taps of a phase, at most."""
        return math.prod(axis.most for axis in self.phases)

    @property
    def even(self) -> bool:
        """Whether all phases have as many steps."""
        return all(axis.even for axis in self.phases)

    @property
    def shapes(self) -> tuple[Sizes, Sizes]:
        """Of both operands as they lie in memory."""
        g = self.geometry
        x, y = (
            arranged(g.batch, g.channels, g.size, True),
            arranged(g.batch, g.filters, g.out, True),
        )
        weight = (*g.kernel, g.channels_of_group, g.filters)
        return {FORWARD: (x, weight), ADJOINT: (y, weight), WEIGHT: (x, y)}[self.kind]

    @property
    def largest(self) -> int:
        """Elements of the largest operand or result."""
        return max(self.size, *map(math.prod, self.shapes))

    @property
    def formula(self) -> str:
        """What it is, over the operands as they lie in memory."""
        names = zip((self.a or "head", self.b), self.shapes, strict=True)
        operands = ", ".join(f"{name}{list(shape)}" for name, shape in names)
        layers = {"groups": self.geometry.groups, "phases": self.phase_count}
        several = "".join(f", {n} {name}" for name, n in layers.items() if n > 1)
        return f"C[{self.m}, {self.n}] = {self.kind}({operands}), k = {self.k}{several}"


def convolved_of(body: Body) -> Convolved:
    """The product that a body's convolution is."""
    node = body.anchor
    assert node is not None
    rule = cast(Convolving, node.op)
    g, kind = rule.geometry(node.attrs, *node.types), rule.name
    batch, inner, outer = g.batch, g.channels_of_group, g.filters_of_group
    shape = batch * g.pixels, outer, g.taps * inner
    if kind == ADJOINT:
        axes = phases_of(g)
        pixels, taps = math.prod(a.pixels for a in axes), math.prod(a.most for a in axes)
        shape = batch * pixels, inner, taps * outer
    elif kind == WEIGHT:
        shape = g.taps * inner, outer, batch * g.pixels
    a, b = (operand_id(body, node, place) for place in range(2))
    turned = kind == WEIGHT, kind == ADJOINT
    headed = bool(body.head)
    return Convolved(*shape, a, b, RESULT, *turned, kind=kind, geometry=g, headed=headed)
