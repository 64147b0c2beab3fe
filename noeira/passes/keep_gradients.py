"""keep_gradients: the gradients outlive the call, in a state of the same layout.

    %grads = pack(…)

becomes

    state %gradients: f32 @net
    %grads = pack(…)
    update %gradients = %grads
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin
from noeira.ir.states import GRADIENTS, GRADS
from noeira.passes.base import Extends, defined


@dataclass(frozen=True)
class KeepGradients(Extends):
    """Update the state %gradients with %grads."""

    name: ClassVar[str] = "keep_gradients"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        grads = defined(graph, GRADS, self.name)
        with builder.at(Origin(ROOT, "gradients of this call", self.name)):
            builder.update(builder.state(GRADIENTS, grads.type), grads)
        return builder.done(graph.outputs)
