"""own: a copy wherever a value needs a place of its own and cannot have it.

    update %a = %b                     %b.copy = copy(%b)
    return %a, %a          becomes     %a.copy = copy(%a)     %a.copy.1 = copy(%a)
                                       update %a = %b.copy
                                       return %a.copy, %a.copy.1

What is returned, what updates a state and what is packed lies where others say: each such value is
made by a kernel, which writes it there and nowhere else; a view stands for the value that it is all
of. A state is overwritten when nothing reads its old value any more, or by a kernel that may. What
may lie where, `ir/storage.py` says. Trace returns only what can be returned, so that its outputs
keep their names here; those of a graph that was written by hand may get others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin, Update, Value
from noeira.ir.order import ordered_and_stuck, rings
from noeira.ir.storage import Memory, in_place_order, placed, takes_over, writers
from noeira.passes.base import Pass


@dataclass(frozen=True)
class Own(Pass):
    """Copy what has a place already, and what would overwrite a state too early."""

    name: ClassVar[str] = "own"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        graph = with_places(graph, self.name)
        graph = with_copies(graph, early_updates(graph), self.name)
        waiting = waiting_updates(graph)
        while waiting:
            copied = [min(ring, key=lambda update: update.new.type.nbytes) for ring in waiting]
            graph, before = with_copies(graph, copied, self.name), sum(map(len, waiting))
            waiting = waiting_updates(graph)
            # Nothing waits for a copy of what lies in no state, so it is in no ring.
            assert sum(map(len, waiting)) < before, "own: a copy has freed no update"
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


def with_places(graph: ComputeGraph, by: str) -> ComputeGraph:
    """The graph with a copy of each value that cannot lie where it must: of what is packed before
    the pack, of the rest at the end.
    """
    found = placed(graph, Memory(graph))
    packed = {id(node): owners for node, owners in found.parts}
    if all(map(all, (found.updates, found.outputs, *packed.values()))):
        return graph
    builder = Builder.of(graph)

    def own(value: Value, owner: str | None, what: str) -> Value:
        """The value itself, or a copy if no memory is its own."""
        if owner is not None:
            return value
        with builder.at(Origin(ROOT, what, by)):
            return builder.emit("copy", value, hint=f"{value.name}.copy")

    builder.nodes.clear()
    for node in graph.nodes:
        owners = packed.get(id(node), ())
        if not all(owners):
            pairs = zip(node.inputs, owners, strict=True)
            parts = tuple(own(v, owner, f"part of {node.outputs[0]}") for v, owner in pairs)
            node = replace(node, inputs=parts)
        builder.nodes.append(node)
    builder.updates = [
        replace(u, new=own(u.new, owner, f"new {u.state}"))
        for u, owner in zip(graph.updates, found.updates, strict=True)
    ]
    pairs = zip(graph.outputs, found.outputs, strict=True)
    return builder.done([own(v, owner, "output") for v, owner in pairs])


def early_updates(graph: ComputeGraph) -> list[Update]:
    """The updates whose kernel reads the old value otherwise than in place."""
    memory, writing = Memory(graph), writers(graph)

    def in_place(update: Update, writer: Node) -> bool:
        reads = any(memory.base(v.name)[0] == update.state.name for v in writer.inputs)
        return not reads or takes_over(writer, update.state, update.new, memory)

    return [
        update
        for update in graph.updates
        if not all(in_place(update, graph.nodes[i]) for i in writing.get(update.new.name, ()))
    ]


def waiting_updates(graph: ComputeGraph) -> list[list[Update]]:
    """The updates that wait for themselves, those of one ring together: nodes that wait for each
    other, of which one writes the new value and one reads the old.
    """
    order = in_place_order(graph, Memory(graph))
    after = [pair for pairs in order.values() for pair in pairs]
    if not ordered_and_stuck(graph.nodes, after)[1]:
        return []
    found = [
        [update for update, pairs in order.items() if any(ring.issuperset(p) for p in pairs)]
        for ring in rings(graph.nodes, after)
    ]
    return [ring for ring in found if ring]


def with_copies(graph: ComputeGraph, early: list[Update], by: str) -> ComputeGraph:
    """The graph with the new values of these updates copied at the end."""
    if not early:
        return graph
    builder = Builder.of(graph)
    for index, update in enumerate(builder.updates):
        if update in early:
            with builder.at(Origin(ROOT, f"new {update.state}", by)):
                copy = builder.emit("copy", update.new, hint=f"{update.new.name}.copy")
            builder.updates[index] = Update(update.state, copy)
    return builder.done(graph.outputs)
