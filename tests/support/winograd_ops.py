"""The three ops of convolutions, whose kernels in C are Winograd's whatever the rule says."""

from __future__ import annotations

from typing import Any

from noeira.codegen.anchor import anchor_of
from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.winograd.rule import WinogradCut, choose, read
from noeira.codegen.lower import tail_code
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.geometry import Geometry
from noeira.ir.ops.convolution import Convolution, ConvolutionWeight, TransposedConvolution
from noeira.ir.plan import Stage

HEAD_AND_TAIL = frozenset({"head", "tail"})


class WinogradConvolution(Convolution):
    """`convolution` by Winograd's algorithm."""

    name = template = "winograd_convolution"
    takes = HEAD_AND_TAIL


class WinogradTransposedConvolution(TransposedConvolution):
    """`transposed_convolution` by Winograd's algorithm."""

    name = template = "winograd_transposed_convolution"
    takes = HEAD_AND_TAIL


class WinogradConvolutionWeight(ConvolutionWeight):
    """`convolution_weight` by Winograd's algorithm."""

    name = template = "winograd_convolution_weight"
    takes = HEAD_AND_TAIL


class WinogradAnchor(CAnchor):
    """The cut of all three."""

    def given(self, body: Body, machine: ISA) -> tuple[str, Geometry, str, ISA]:
        """What a cut follows from."""
        anchor = anchor_of(body)
        types = [value.type for value in anchor.inputs]
        geometry = anchor.op.geometry(anchor.attrs, *types)
        return anchor.op.name.removeprefix("winograd_"), geometry, types[0].dtype, machine

    def rule(self, body: Body, machine: ISA) -> WinogradCut:
        return choose(*self.given(body, machine))

    def stages(self, body: Body, cut: WinogradCut, machine: ISA) -> tuple[Stage, ...]:
        return cut.stages()

    def scratch(self, body: Body, cut: WinogradCut) -> tuple[Room, ...]:
        return cut.rooms()

    def read(self, body: Body, stages: tuple[Stage, ...], machine: ISA) -> WinogradCut:
        return read(*self.given(body, machine), stages)

    def template(self, body: Body, cut: WinogradCut) -> str:
        return cut.template

    def view(self, body: Body, machine: ISA) -> Any:
        return None

    def tail(self, body: Body) -> Elementwise:
        names = anchor_of(body).operands
        bias = names.index("bias") if "bias" in names else None
        return tail_code(body, bias, apart=True)


class OfConvolution(WinogradAnchor):
    """The first."""

    stem = "winograd_convolution"


class OfTransposedConvolution(WinogradAnchor):
    """Its adjoint in x."""

    stem = "winograd_transposed_convolution"


class OfConvolutionWeight(WinogradAnchor):
    """Its adjoint in the weight."""

    stem = "winograd_convolution_weight"
