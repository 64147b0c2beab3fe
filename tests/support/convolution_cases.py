"""Convolutions of any shape as cases of kernels in C, and what is asked of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from c_sweep import CKernels, compiler_or_skip, for_isa, quick
from fused_cases import draws_of, inputs
from sweep import Case, assert_agrees, same_bits

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.target import CTarget
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.geometry import Sizes
from noeira.ir.op import op
from noeira.ir.plan import Choice
from noeira.ir.types import TensorType

NAMES = ("convolution", "transposed_convolution", "convolution_weight")
# Beside what the sweeps try, more threads than there are tiles.
MANY_THREADS = 1000, False


@dataclass(frozen=True)
class Shape:
    """The shape of a convolution, and one of its three ops."""

    batch: int
    channels: int
    filters: int
    size: Sizes
    kernel: Sizes
    stride: Sizes = ()
    padding: Sizes = ()
    dilation: Sizes = ()
    groups: int = 1

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of `convolution`."""
        found = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        return found | {"groups": self.groups, "channels_last": True}

    @property
    def image(self) -> Sizes:
        """The shape of x."""
        return (self.batch, *self.size, self.channels)

    @property
    def weight(self) -> Sizes:
        """The shape of the weight."""
        return (*self.kernel, self.channels // self.groups, self.filters)

    @property
    def result(self) -> Sizes:
        """The shape of y."""
        rule, types = op("convolution"), (TensorType("f32", s) for s in (self.image, self.weight))
        return rule.types(rule.Attrs(**self.attrs), list(types))[0].shape

    def case(self, name: str, dtype: str, tail: bool) -> Case:
        """A node of one of the three ops; with a tail y1 = relu(y · factor + column), y0 = y1 +
        residual, and a bias where there may be one.
        """
        builder = Builder("case")
        attrs, made = dict(self.attrs), self.result
        operands = [self.image, self.weight]
        if name == "transposed_convolution":
            attrs["size"], made, operands = self.size, self.image, [self.result, self.weight]
        if name == "convolution_weight":
            attrs["size"], made, operands = self.kernel, self.weight, [self.image, self.result]
        elif tail:
            operands.append(made[-1:])
        own = len(operands)
        others = [(), made[-1:], made] if tail else []
        given = inputs(builder, *operands, *others, dtype=dtype)
        found = builder.emit(name, *given[:own], **attrs)
        outputs = {found.name}
        if tail:
            factor, column, residual = given[own:]
            scaled = builder.emit("add", builder.emit("multiply", found, factor), column)
            active = builder.emit("relu", scaled)
            found = builder.emit("add", active, residual)
            outputs = {active.name, found.name}
        body = tuple(builder.nodes)
        node = close(body, outputs, body[0].origin) if tail else body[0]
        return Case(f"{name} {self} {dtype}", node, draws_of(node))


def check(
    cases: Sequence[Case], isa: ISA, choices: Sequence[Choice] = (), full: bool = False
) -> None:
    """Results must be right, and the same for any number of threads. full: built in full."""
    target, compiler = CTarget(isa), for_isa(compiler_or_skip(), isa)
    compiler = compiler if full else quick(compiler)
    choices = tuple(choices) or tuple(target.choose(case.node) for case in cases)
    library = CKernels(target, tuple(cases), choices).built(compiler)
    for number, case in enumerate(cases):
        arrays = case.arrays(number)
        runs = (library.run(case, arrays, way) for way in (*library.ways, MANY_THREADS))
        assert_agrees(case, same_bits(case, runs, "the number of threads"), arrays)
