"""hold: the buffers stay as they are, for entries that only look at a batch.

update %buffers = %buffers.next
update %tick = %tick.next            becomes      update %tick = %tick.next
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.states import TICK
from noeira.passes.base import Pass


@dataclass(frozen=True)
class Hold(Pass):
    """Drop every update but that of the count of calls."""

    name: ClassVar[str] = "hold"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        return replace(graph, updates=tuple(u for u in graph.updates if u.state.name == TICK))

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """Only updates are gone."""
        if replace(before, updates=after.updates) != after:
            raise VerifyError("hold changed more than the list of updates")
