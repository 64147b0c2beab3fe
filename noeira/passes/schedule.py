"""schedule: the last word on the order of launches.

    %step.next = count(%step, %ok)                  %params.next, … = adam(…, %step, …)
    %params.next, … = adam(…, %step, …)   becomes   %step.next = count(%step, %ok)

A node that updates a state takes over its memory, so it runs after every other reader of the old
value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.order import topological
from noeira.ir.storage import readers, reshaped, writers
from noeira.passes.base import Pass, same_nodes


@dataclass(frozen=True)
class Schedule(Pass):
    """Order nodes so that every update can happen in place."""

    name: ClassVar[str] = "schedule"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        reading, writing = readers(graph, reshaped(graph)), writers(graph)
        after = [
            (writer, reader)
            for update in graph.updates
            for old in (update.state, *graph.state(update.state.name).members)
            for reader in reading.get(old.name, ())
            for writer in writing.get(update.new.name, ())
            if reader != writer
        ]
        return replace(graph, nodes=tuple(topological(graph.nodes, after)))

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """The same nodes in another order."""
        if not same_nodes(before, after):
            raise VerifyError("schedule changed more than the order")
