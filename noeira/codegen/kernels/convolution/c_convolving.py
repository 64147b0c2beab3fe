"""How C runs a convolution, whichever of the three ops it is: by one of several algorithms."""

from __future__ import annotations

from typing import Any, cast

from noeira.codegen.anchor import anchor_of
from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.convolution.c_algorithms import ConvolutionCut, choose, read
from noeira.codegen.lower import tail_code
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.geometry import Geometry
from noeira.ir.ops.convolution import Convolving
from noeira.ir.plan import Stage
from noeira.ir.types import COMPUTED


class CConvolving(CAnchor):
    """What cuts of all algorithms have: stages, rooms, a template."""

    dtypes, apart = frozenset(COMPUTED), True

    def given(self, body: Body, machine: ISA) -> tuple[str, Geometry, str, ISA, bool]:
        """What a cut follows from."""
        anchor = anchor_of(body)
        geometry = cast(Convolving, anchor.op).geometry(anchor.attrs, *anchor.types)
        return self.stem, geometry, anchor.outputs[0].type.dtype, machine, bool(body.head)

    def rule(self, body: Body, machine: ISA) -> ConvolutionCut:
        return choose(*self.given(body, machine))

    def stages(self, body: Body, cut: ConvolutionCut, machine: ISA) -> tuple[Stage, ...]:
        return cut.stages()

    def scratch(self, body: Body, cut: ConvolutionCut) -> tuple[Room, ...]:
        return cut.rooms()

    def algorithm(self, body: Body, cut: ConvolutionCut) -> str:
        return cut.algorithm

    def read(self, body: Body, stages: tuple[Stage, ...], machine: ISA) -> ConvolutionCut:
        return read(*self.given(body, machine), stages)

    def template(self, body: Body, cut: ConvolutionCut) -> str:
        return cut.template

    def view(self, body: Body, machine: ISA) -> Any:
        return None

    def tail(self, body: Body) -> Elementwise:
        operands = anchor_of(body).operands
        bias = operands.index("bias") if "bias" in operands else None
        return tail_code(body, bias, self.apart)
