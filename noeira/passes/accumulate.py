"""accumulate: gradients of several batches are added up before the optimizer reads their mean.

    %grads = pack(…)

becomes, for a batch that others follow,

    state %gathered: f32 @net
    state %gathered_rows: i64[]
    %grads = pack(…)
    %ok = finite(%loss)                                                             by accumulate
    %gathered.next = accumulate_gradients(%gathered, %grads, %gathered_rows, %ok) {weight = 25.0}
    %gathered_rows.next = count(%gathered_rows, %ok) {by = 25}                      by accumulate

and for the last one

    %grads.mean = accumulate_gradients(%gathered, %grads, %gathered_rows) {mean = true, …}
    update %gathered_rows = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin
from noeira.ir.states import COUNTER, GATHERED, GATHERED_ROWS, GRADS, LOSS, MEAN_GRADS, OK
from noeira.passes.base import Extends, defined


@dataclass(frozen=True)
class Accumulate(Extends):
    """Add up gradients, each batch weighted by its rows; `complete` of them it gives their mean."""

    name: ClassVar[str] = "accumulate"
    rows: int = 1
    complete: bool = False

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder, grads = Builder.of(graph), defined(graph, GRADS, self.name)
        with builder.at(Origin(ROOT, "gradients of several batches", self.name)):
            total = builder.state(GATHERED, grads.type)
            rows = builder.state(GATHERED_ROWS, COUNTER)
            if self.complete:
                builder.emit(
                    "accumulate_gradients",
                    *(total, grads, rows),
                    weight=float(self.rows),
                    mean=True,
                    hint=MEAN_GRADS,
                )
                zero = builder.emit("constant", value=0.0, dtype="i64", hint="none_gathered")
                builder.update(rows, zero)
            else:
                ok = builder.emit("finite", defined(graph, LOSS, self.name), hint=OK)
                added = builder.emit(
                    "accumulate_gradients",
                    *(total, grads, rows, ok),
                    weight=float(self.rows),
                    hint=f"{GATHERED}.next",
                )
                builder.update(total, added)
                counted = builder.emit(
                    "count", rows, ok, by=self.rows, hint=f"{GATHERED_ROWS}.next"
                )
                builder.update(rows, counted)
        return builder.done(graph.outputs)
