"""resident: mini-batches come from a data set that stays in memory, and results add up over calls.

    input %x: f32[100, 784]
    …
    return %loss

becomes

    input %data.x: f32[60000, 784]
    input %order: i32[60000] < 60000
    state %cursor: i64[] … state %total.loss: f64[] … state %bad: i64[] = constant(-1.0)
    %x = take(%data.x, %order, %cursor) {rows = 100}                      by resident
    …
    %total.loss.next = accumulate(%total.loss, %loss, %ok) {weight = 100} by resident
    %bad.next = record_bad(%bad, %tick, %ok)                              by resident
    %cursor.next = count(%cursor, %ok) {by = 100}         by resident
    return %loss
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Input, Node, Origin, Value
from noeira.ir.states import BAD, COUNTER, CURSOR, OK, ORDER, TICK, TOTAL, data_set, total
from noeira.ir.types import TensorType
from noeira.passes.base import Extends, defined


@dataclass(frozen=True)
class Resident(Extends):
    """A prefix that gathers, and a suffix that adds up, so that n steps are n calls of one entry.

    samples: of the data set; weights: for each result to add up, its name and what one call counts
    for.
    """

    name: ClassVar[str] = "resident"
    samples: int = 1
    weights: tuple[tuple[str, float], ...] = ()

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        rows = graph.inputs[0].value.type.shape[0]
        gathered, inputs, cursor = self.prefix(graph, rows)
        builder = Builder.of(replace(graph, inputs=inputs, nodes=(*gathered, *graph.nodes)))
        ok = [v for n in graph.nodes for v in n.outputs if v.name == OK]
        with builder.at(self.origin()):
            builder.state(CURSOR, COUNTER)
            for name, weight in self.weights:
                added_up = builder.state(total(name), TOTAL)
                value = defined(graph, name, self.name)
                added = builder.emit(
                    "accumulate", added_up, value, *ok, weight=weight, hint=f"{added_up.name}.next"
                )
                builder.update(added_up, added)
            if ok:
                bad = builder.state(BAD, COUNTER, initial=("constant(-1.0)",))
                tick = graph.state(TICK).value
                builder.update(bad, builder.emit("record_bad", bad, tick, *ok, hint=f"{BAD}.next"))
            builder.update(
                cursor,
                builder.emit("count", cursor, *ok, by=rows, hint=f"{CURSOR}.next"),
            )
        return builder.done(graph.outputs)

    def origin(self) -> Origin:
        """The stamp of everything the pass adds."""
        return Origin(ROOT, f"data set of {self.samples}", self.name)

    def prefix(
        self, graph: ComputeGraph, rows: int
    ) -> tuple[tuple[Node, ...], tuple[Input, ...], Value]:
        """The nodes that gather each input, the inputs that take its place, and the cursor."""
        builder = Builder("gather")
        cursor = Value(CURSOR, COUNTER)
        data = [
            builder.input(
                data_set(given.value.name),
                replace(given.value.type, shape=(self.samples, *given.value.type.shape[1:])),
                given.limit,
            )
            for given in graph.inputs
        ]
        order = builder.input(ORDER, TensorType("i32", (self.samples,)), self.samples)
        with builder.at(self.origin()):
            for source, given in zip(data, graph.inputs, strict=True):
                builder.emit("take", source, order, cursor, rows=rows, hint=given.value.name)
        return tuple(builder.nodes), tuple(builder.inputs), cursor

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        limits = {i.value.name: i.limit for i in graph.inputs}
        own = (n for n in graph.nodes if n.origin.by == self.name)
        gathering = [n for n in own if n.inputs[0].name in limits]
        inputs = tuple(Input(n.outputs[0], limits[n.inputs[0].name]) for n in gathering)
        return replace(super().undo(graph), inputs=inputs)
