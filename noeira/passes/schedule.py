"""schedule: the last word on the order of launches.

    %step.next = count(%step, %ok)                  %params.next, … = adam(…, %step, …)
    %params.next, … = adam(…, %step, …)   becomes   %step.next = count(%step, %ok)

A node that updates a state takes over its memory, so it runs after every other reader of the old
value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.order import topological
from noeira.ir.storage import Memory, in_place_order
from noeira.passes.base import Pass, same_nodes


@dataclass(frozen=True)
class Schedule(Pass):
    """Order nodes so that every update can happen in place."""

    name: ClassVar[str] = "schedule"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        after = in_place_order(graph, Memory(graph)).values()
        ordered = topological(graph.nodes, chain.from_iterable(after))
        unchanged = all(new is old for new, old in zip(ordered, graph.nodes, strict=True))
        return graph if unchanged else replace(graph, nodes=tuple(ordered))

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """The same nodes in another order."""
        if not same_nodes(before, after):
            raise VerifyError("schedule changed more than the order")
