"""The CUDA target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import ACCESS_BYTES, ARCHS, Arch
from noeira.codegen.cuda.moving import Moving
from noeira.codegen.cuda.row import Row
from noeira.codegen.cuda.row_total import RowTotal
from noeira.codegen.defaults import Defaults
from noeira.codegen.target import Target
from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import Plan, call_text, place_text
from noeira.ir.storage import Holding, Memory
from noeira.ir.types import DTYPE_BYTES

if TYPE_CHECKING:
    from noeira.codegen.source import Source

DEFAULTS = Defaults(rows=Row(), row_totals=RowTotal(), moves=Moving(), others=CudaAnchor())


@dataclass(frozen=True)
class CudaTarget(Target):
    """CUDA for one kind of GPU, with the choices of a table where it has them."""

    machine: Arch
    language = "cuda"
    machines = ARCHS
    defaults = DEFAULTS

    def check_places(self, plan: Plan) -> None:
        """Values and workspaces begin at whole accesses."""
        for place in plan.places:
            if place.offset % ACCESS_BYTES:
                text = not_whole(place_text(place), plan)
                raise VerifyError(f"{text}: {advice(plan.graph, place.name)}")
        for call in plan.calls:
            if call.workspace % ACCESS_BYTES:
                raise VerifyError(not_whole(call_text(call), plan))

    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        from noeira.codegen.cuda.render import render_cuda

        return render_cuda(name, plans, self, earlier)


def not_whole(text: str, plan: Plan) -> str:
    """What is wrong with a line of a plan that places something where no access begins."""
    return (
        f"{text}: for {plan.target} it must begin at a multiple of {ACCESS_BYTES} bytes, so many "
        "being read and written at a time"
    )


def advice(graph: ComputeGraph, name: str) -> str:
    """What makes a value begin at a whole access: another offset in what holds it, if it is that
    which is none, and else a copy of the view that it is.
    """
    memory = Memory(graph)
    held = {
        memory.base(value.name)[0]: (node.outputs[0], offset)
        for node in graph.nodes
        if isinstance(node.storage, Holding)
        for value, offset in zip(node.inputs, node.storage.offsets, strict=True)
    }
    base, _ = memory.base(name)
    while base in held:
        holder, offset = held[base]
        elements = ACCESS_BYTES // DTYPE_BYTES[holder.type.dtype]
        if offset % elements:
            return (
                f"{holder} holds it from element {offset} on, let that be a multiple of {elements}"
            )
        base, _ = memory.base(holder.name)
    return "copy a view that does not"
