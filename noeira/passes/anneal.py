"""anneal: the learning rate of a step follows from the number of updates so far.

    %grads = pack(…)

becomes

    state %lr: f32[] = constant(0.001)
    state %adam.step: i64[]
    %grads = pack(…)
    %rate = cosine_rate(%lr, %adam.step) {length = 1000}     by anneal
    return %loss, %rate
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin
from noeira.ir.states import COUNTER, EPOCH_STEPS, RATE
from noeira.passes.base import Extends, parameters
from noeira.passes.shared import learning_rate, updates_made


@dataclass(frozen=True)
class Anneal(Extends):
    """Append the schedule `op` with its `options` (pairs of attribute and value).

    optimizer, lr: whose updates are counted, and the rate that the schedule is about. by_epoch:
    it counts epochs, each of as many updates as the state %epoch_steps says.
    """

    name: ClassVar[str] = "anneal"
    op: str = "cosine_rate"
    options: tuple[tuple[str, Any], ...] = ()
    optimizer: str = "adam"
    lr: float = 0.001
    by_epoch: bool = False

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        dtype = parameters(graph, self.name).value.type.dtype
        with builder.at(Origin(ROOT, f"schedule {self.op}", self.name)):
            operands = [learning_rate(builder, dtype, self.lr)]
            operands.append(updates_made(builder, self.optimizer))
            if self.by_epoch:
                operands.append(builder.state(EPOCH_STEPS, COUNTER))
            rate = builder.emit(self.op, *operands, **dict(self.options), hint=RATE)
        return builder.done((*graph.outputs, rate))
