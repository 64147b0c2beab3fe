"""ema: an exponential moving average of the parameters, beside them.

    update %params = %params.next

becomes

    state %ema: f32 @net
    %ema.next = moving_average(%ema, %params.next, %adam.step, %ok) {decay = 0.999}     by ema
    update %params = %params.next
    update %ema = %ema.next
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.states import EMA, OK, PARAMS
from noeira.passes.base import Extends, defined, parameters
from noeira.passes.shared import updates_made


@dataclass(frozen=True)
class MovingAverage(Extends):
    """Append the average with a decay of `decay` an update; the first update of the network by
    `optimizer` begins it.
    """

    name: ClassVar[str] = "ema"
    decay: float = 0.999
    optimizer: str = "adam"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder, params = Builder.of(graph), parameters(graph, self.name).value
        ok, following = defined(graph, OK, self.name), self.following(graph)
        with builder.at(Origin(ROOT, "average of the parameters", self.name)):
            average = builder.state(EMA, params.type)
            step = updates_made(builder, self.optimizer)
            made = builder.emit(
                "moving_average", average, following, step, ok, decay=self.decay, hint=f"{EMA}.next"
            )
            builder.update(average, made)
        return builder.done(graph.outputs)

    def following(self, graph: ComputeGraph) -> Value:
        """The parameters after the update. Raises VerifyError if there is none."""
        for update in graph.updates:
            if update.state.name == PARAMS:
                return update.new
        raise VerifyError(f"{self.name}: the parameters have no update: update{{…}} comes first")
