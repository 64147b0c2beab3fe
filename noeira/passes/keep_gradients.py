"""keep_gradients: the gradients outlive the call, in a state of the same layout.

    %grads = pack(…)

becomes

    state %gradients: f32 @net
    %grads = pack(…)
    update %gradients = %grads
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.graph import Builder, ComputeGraph
from noeira.ir.states import GRADIENTS, GRADS
from noeira.passes.base import Pass, defined


@dataclass(frozen=True)
class KeepGradients(Pass):
    """Update the state %gradients with %grads."""

    name: ClassVar[str] = "keep_gradients"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        grads = defined(graph, GRADS, self.name)
        builder.update(builder.state(GRADIENTS, grads.type), grads)
        return builder.done(graph.outputs)

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return replace(
            graph,
            states=tuple(s for s in graph.states if s.value.name != GRADIENTS),
            updates=tuple(u for u in graph.updates if u.state.name != GRADIENTS),
        )
