"""How C runs a convolution, whichever of the three ops it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, TypeAlias, cast

from noeira.codegen.anchor import anchor_of
from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA, PLAIN
from noeira.codegen.cut import check_stages, read_cut
from noeira.codegen.kernels.convolution.c_cut import PatchCut
from noeira.codegen.kernels.convolution.c_depthwise import (
    Depthwise,
    DepthwiseCut,
    check_depthwise,
    choose_depthwise,
    depthwise_of,
    depthwise_scratch,
    depthwise_stages,
    is_depthwise,
)
from noeira.codegen.kernels.convolution.c_direct import check_direct, direct_scratch, direct_stages
from noeira.codegen.kernels.convolution.c_plan import Plans
from noeira.codegen.kernels.convolution.c_product import PatchProduct
from noeira.codegen.kernels.convolution.c_rule import choose_patches
from noeira.codegen.lower import tail_code
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.geometry import Geometry
from noeira.ir.ops.convolution import Convolving
from noeira.ir.plan import Stage
from noeira.ir.types import COMPUTED

# What makes a product of a geometry, a dtype, and lanes of a vector.
MakesProduct = Callable[[Geometry, str, int], PatchProduct]

ConvolutionCut: TypeAlias = PatchCut | DepthwiseCut


class CConvolving(CAnchor):
    """A product of patches, or channel by channel. makes: the product that the op is; summed:
    whether it sums over all places, as for a weight.
    """

    dtypes = frozenset(COMPUTED)
    Cut = PatchCut
    makes: ClassVar[MakesProduct]
    summed: ClassVar[bool] = False

    def product(self, body: Body, lanes: int) -> PatchProduct:
        """The product that a body is."""
        return type(self).makes(geometry_of(body), dtype_of(body), lanes)

    def channelwise(self, body: Body, machine: ISA) -> Depthwise | None:
        """What a body is channel by channel, if it is."""
        geometry = geometry_of(body)
        if not is_depthwise(geometry):
            return None
        return depthwise_of(geometry, self.stem, dtype_of(body), machine)

    def rule(self, body: Body, machine: ISA) -> ConvolutionCut:
        if view := self.channelwise(body, machine):
            return choose_depthwise(view, self.summed)
        return choose_patches(self.product(body, machine.lanes(dtype_of(body))), machine)

    def stages(self, body: Body, cut: ConvolutionCut, machine: ISA) -> tuple[Stage, ...]:
        if isinstance(cut, DepthwiseCut):
            return depthwise_stages(cut)
        return direct_stages(self.product(body, cut.lanes), cut)

    def scratch(self, body: Body, cut: ConvolutionCut) -> tuple[Room, ...]:
        if isinstance(cut, DepthwiseCut):
            return depthwise_scratch(
                depthwise_of(geometry_of(body), self.stem, dtype_of(body), PLAIN), cut
            )
        return direct_scratch(self.product(body, cut.lanes), cut)

    def check(self, body: Body, cut: ConvolutionCut, machine: ISA) -> None:
        if isinstance(cut, DepthwiseCut):
            view = self.channelwise(body, machine)
            assert view is not None
            check_depthwise(view, cut, self.summed)
        else:
            check_direct(self.product(body, cut.lanes), cut)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: ISA) -> ConvolutionCut:
        kind = DepthwiseCut if is_depthwise(geometry_of(body)) else PatchCut
        cut: ConvolutionCut = read_cut(kind, stages)
        if isinstance(cut, PatchCut):
            cut = replace(cut, lanes=machine.lanes(dtype_of(body)))
        self.check(body, cut, machine)
        check_stages(kind, stages, self.stages(body, cut, machine))
        return cut

    def view(self, body: Body, machine: ISA) -> Depthwise | Plans:
        product = Plans(self.product(body, machine.lanes(dtype_of(body))))
        return self.channelwise(body, machine) or product

    def tail(self, body: Body) -> Elementwise:
        operands = anchor_of(body).operands
        return tail_code(body, bias=operands.index("bias") if "bias" in operands else None)


def geometry_of(body: Body) -> Geometry:
    """The numbers of the convolution that a body has."""
    node = anchor_of(body)
    return cast(Convolving, node.op).geometry(node.attrs, *node.types)


def dtype_of(body: Body) -> str:
    """The dtype that it sums in."""
    return anchor_of(body).outputs[0].type.dtype
