"""own: a copy wherever a value needs a place of its own and cannot have it.

    update %a = %b                     %b.copy = copy(%b)
    return %a, %a          becomes     %a.copy = copy(%a)     %a.copy.1 = copy(%a)
                                       update %a = %b.copy
                                       return %a.copy, %a.copy.1

What is returned, what updates a state and what is packed lies where others say: each such value is
made by a kernel, which writes it there and nowhere else; a view stands for the value that it is all
of. A state is overwritten when nothing reads its old value any more, or by a kernel that may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin, Update, Value
from noeira.ir.order import ordered_and_stuck
from noeira.ir.storage import Holding, Literal, Memory, in_place_order, takes_over, writers
from noeira.passes.base import Pass


@dataclass(frozen=True)
class Own(Pass):
    """Copy what has a place already, and what would overwrite a state too early."""

    name: ClassVar[str] = "own"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        graph = Places(graph, self.name).owned()
        while early := early_updates(graph):
            graph = with_copies(graph, early, self.name)
        return graph

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        source = {n.outputs[0].name: n.inputs[0] for n in graph.nodes if n.origin.by == self.name}
        if not source:
            return graph

        def original(value: Value) -> Value:
            while value.name in source:
                value = source[value.name]
            return value

        def read(node: Node) -> Node:
            if not any(v.name in source for v in node.inputs):
                return node
            return replace(node, inputs=tuple(map(original, node.inputs)))

        return replace(
            graph,
            nodes=tuple(read(n) for n in graph.nodes if n.origin.by != self.name),
            updates=tuple(Update(u.state, original(u.new)) for u in graph.updates),
            outputs=tuple(map(original, graph.outputs)),
        )


@dataclass
class Places:
    """Gives each value that needs a place the first one that wants it, the others a copy.

    taken: the values, among those that own memory, that have a place.
    """

    graph: ComputeGraph
    by: str
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.memory = Memory(self.graph)
        self.makers = {v.name: node for node in self.graph.nodes for v in node.outputs}

    def owned(self) -> ComputeGraph:
        """The graph with the copies: of what is packed before the pack, of the rest at the end."""
        updated = {u.state.name: self.take(u.new) for u in self.graph.updates}
        returned = [self.take(value, held=False) for value in self.graph.outputs]
        packed = {id(n): [*map(self.take, n.inputs)] for n in self.graph.nodes if holds(n)}
        if all(map(all, (updated.values(), returned, *packed.values()))):
            return self.graph
        self.builder.nodes.clear()
        for node in self.graph.nodes:
            if id(node) in packed:
                pairs = zip(node.inputs, packed[id(node)], strict=True)
                what = f"part of {node.outputs[0]}"
                inputs = tuple(v if free else self.copy(v, what) for v, free in pairs)
                node = node if all(packed[id(node)]) else replace(node, inputs=inputs)
            self.builder.nodes.append(node)
        self.builder.updates = [
            u if updated[u.state.name] else Update(u.state, self.copy(u.new, f"new {u.state}"))
            for u in self.graph.updates
        ]
        pairs = zip(self.graph.outputs, returned, strict=True)
        return self.builder.done([v if free else self.copy(v, "output") for v, free in pairs])

    @cached_property
    def builder(self) -> Builder:
        """What emits copies."""
        return Builder.of(self.graph)

    def take(self, value: Value, held: bool = True) -> bool:
        """Whether the value can have the place; it is taken then. `held`: also if it holds others,
        whose gaps stay zero there.
        """
        owner = self.memory.whole(value.name)
        maker = self.makers.get(owner or "")
        if owner is None or maker is None or owner in self.taken:
            return False
        if isinstance(maker.storage, Literal) or (holds(maker) and not held):
            return False
        self.taken.add(owner)
        return True

    def copy(self, value: Value, what: str) -> Value:
        """Emit a copy."""
        with self.builder.at(Origin(ROOT, what, self.by)):
            return self.builder.emit("copy", value, hint=f"{value.name}.copy")


def holds(node: Node) -> bool:
    """Whether the operands lie in the result."""
    return isinstance(node.storage, Holding)


def early_updates(graph: ComputeGraph) -> list[Update]:
    """Updates whose kernel reads the old value otherwise than in place; if there are none, one that
    would have to wait for itself.

    Raises VerifyError if nodes wait for themselves in another way.
    """
    memory, writing = Memory(graph), writers(graph)

    def in_place(update: Update, writer: Node) -> bool:
        reads = any(memory.base(v.name)[0] == update.state.name for v in writer.inputs)
        return not reads or takes_over(writer, update.state, update.new, memory)

    writers_of = {
        u.state.name: [graph.nodes[i] for i in writing.get(u.new.name, ())] for u in graph.updates
    }
    early = [u for u in graph.updates if not all(in_place(u, w) for w in writers_of[u.state.name])]
    if early:
        return early
    _, stuck = ordered_and_stuck(graph.nodes, in_place_order(graph, memory))
    waiting = set(map(id, stuck))
    for update in graph.updates:
        if any(id(writer) in waiting for writer in writers_of[update.state.name]):
            return [update]
    if stuck:
        raise VerifyError(f"own: {stuck[0].outputs[0]} waits for itself: no order of nodes exists")
    return []


def with_copies(graph: ComputeGraph, early: list[Update], by: str) -> ComputeGraph:
    """The graph with the new values of these updates copied at the end."""
    builder = Builder.of(graph)
    for index, update in enumerate(builder.updates):
        if update in early:
            with builder.at(Origin(ROOT, f"new {update.state}", by)):
                copy = builder.emit("copy", update.new, hint=f"{update.new.name}.copy")
            builder.updates[index] = Update(update.state, copy)
    return builder.done(graph.outputs)
