"""guard: the buffers, too, keep their value over a step that is not ok.

    %buffers.next = pack(%0.mean.next)
    %ok = finite(%loss)
    update %buffers = %buffers.next

becomes

    %buffers.next = pack(%0.mean.next)
    %ok = finite(%loss)
    %buffers.kept = keep(%buffers.next, %buffers, %ok)      by guard
    update %buffers = %buffers.kept
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Update
from noeira.ir.states import OK, TICK
from noeira.passes.base import Pass, defined


@dataclass(frozen=True)
class Guard(Pass):
    """Keep every state whose update does not read %ok itself, but the count of calls."""

    name: ClassVar[str] = "guard"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder, ok = Builder.of(graph), defined(graph, OK, self.name)
        found = unguarded(graph)
        if not found:
            return graph
        with builder.at(Origin(ROOT, "states kept", self.name)):
            for index, update in enumerate(graph.updates):
                if update in found:
                    state, new = update.state, update.new
                    kept = builder.emit("keep", new, state, ok, hint=f"{state.name}.kept")
                    builder.updates[index] = replace(update, new=kept)
        return builder.done(graph.outputs)

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        kept = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n.origin.by == self.name}
        updates = tuple(replace(u, new=kept.get(u.new, u.new)) for u in graph.updates)
        nodes = tuple(n for n in graph.nodes if n.origin.by != self.name)
        return replace(graph, nodes=nodes, updates=updates)


def unguarded(graph: ComputeGraph) -> list[Update]:
    """The updates that would happen in a step that is not ok, though they count no calls."""
    reading = {v.name for n in graph.nodes if OK in {i.name for i in n.inputs} for v in n.outputs}
    return [u for u in graph.updates if u.state.name != TICK and u.new.name not in reading]


def check_guarded(graph: ComputeGraph) -> None:
    """Raises VerifyError if a training step, which has %ok, updates a state without reading it."""
    if any(v.name == OK for node in graph.nodes for v in node.outputs):
        for update in unguarded(graph):
            raise VerifyError(
                f"{update.new} updates {update.state} whether the step is ok or not: "
                f"its node must read %{OK}, as the pass guard lets it"
            )
