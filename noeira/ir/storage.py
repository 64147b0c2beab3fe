"""Where values lie: views in the memory of other values, who may lie where others say, and who
reads and writes a value, seen through views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from noeira.ir.graph import ComputeGraph, Node, Update, Value


@dataclass(frozen=True)
class Literal:
    """A number of rank 0 in the program's read-only data."""

    value: float


@dataclass(frozen=True)
class Inside:
    """Inside an operand, from its element `offset` on."""

    operand: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Holding:
    """The operands lie in the result, each from its element `offset` on."""

    offsets: tuple[int, ...]


Storage = Literal | Inside | Holding


class Memory:
    """Which value each value lies in: members in their state, views in what they view."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.sizes: dict[str, int] = {}
        self.inside: dict[str, tuple[str, int]] = {}
        for value in graph.given():
            self.sizes[value.name] = value.type.size
        for state in graph.states:
            for value, member in graph.members(state):
                self.inside[value.name] = (state.value.name, member.offset)
        for node in graph.nodes:
            self.sizes |= {v.name: v.type.size for v in node.outputs}
            if isinstance(node.storage, Inside):
                base, offset = self.base(node.inputs[node.storage.operand].name)
                self.inside[node.outputs[0].name] = (base, offset + node.storage.offset)

    def base(self, name: str) -> tuple[str, int]:
        """The value that owns the memory of a value, and the element where the value begins."""
        return self.inside.get(name, (name, 0))

    def whole(self, name: str) -> str | None:
        """The value that owns the memory, if the value is all of it."""
        base, offset = self.base(name)
        return base if offset == 0 and self.sizes[base] == self.sizes[name] else None


@dataclass(frozen=True)
class Placed:
    """For each value that lies where others say, the value whose memory then lies there: the one
    that it is all of; None if that cannot be, so that a copy must lie there.

    updates, outputs: in the order of the graph. parts: of each node that holds its operands.
    """

    updates: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    parts: tuple[tuple[Node, tuple[str | None, ...]], ...]


def placed(graph: ComputeGraph, memory: Memory) -> Placed:
    """Who lies where others say: what updates a state in it, what is returned in memory of the
    caller, what is packed in the pack. Of several that want the memory of one value, the first has
    it; what is given and literals have their places already.
    """
    makers = {v.name: node for node in graph.nodes for v in node.outputs}
    taken = set[str]()

    def maker(value: Value) -> Node | None:
        return makers.get(memory.whole(value.name) or "")

    def has_gaps(node: Node, layout: str | None = None) -> bool:
        """Whether a part of what a node holds is written by nobody, but for gaps of a layout whose
        members are all there.
        """
        whole = node.outputs[0].type.layout == layout and layout is not None
        whole = whole and len(node.inputs) == len(graph.layout(layout or "").members)
        inner = (part for part in map(maker, node.inputs) if part and holds(part))
        return (not whole and leaves_gaps(node)) or any(map(has_gaps, inner))

    def take(value: Value, refused: Callable[[Node], bool]) -> str | None:
        owner, node = memory.whole(value.name), maker(value)
        if owner is None or node is None or owner in taken or isinstance(node.storage, Literal):
            return None
        if holds(node) and refused(node):
            return None
        taken.add(owner)
        return owner

    def update(state: Value, new: Value) -> str | None:
        # Gaps must be zero: those of a state's layout are, other elements are its old value.
        return take(new, lambda node: has_gaps(node, state.type.layout))

    return Placed(
        tuple(update(u.state, u.new) for u in graph.updates),
        tuple(take(value, lambda node: True) for value in graph.outputs),
        tuple(
            (node, tuple(take(value, lambda node: False) for value in node.inputs))
            for node in graph.nodes
            if holds(node)
        ),
    )


def holds(node: Node) -> bool:
    """Whether the operands lie in the result."""
    return isinstance(node.storage, Holding)


def leaves_gaps(node: Node) -> bool:
    """Whether a value that holds others has elements that none of them writes."""
    return sum(v.type.size for v in node.inputs) < node.outputs[0].type.size


def readers(graph: ComputeGraph, memory: Memory) -> Mapping[str, list[int]]:
    """For each value that owns memory, the launching nodes, as positions, that read in it."""
    found = defaultdict[str, list[int]](list)
    for index, node in enumerate(graph.nodes):
        if node.launches:
            for value in node.inputs:
                found[memory.base(value.name)[0]].append(index)
    return found


def writers(graph: ComputeGraph) -> dict[str, list[int]]:
    """For each value, the launching nodes, as positions, that write it: those of the operands, if
    it is a view.
    """
    found: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        own = [index]
        if not node.launches:
            own = [writer for value in node.inputs for writer in found.get(value.name, ())]
        found |= dict.fromkeys((v.name for v in node.outputs), own)
    return found


def overwritable(node: Node) -> dict[int, tuple[int, ...]]:
    """For a result, the operands whose memory it may be written to. A fused node of element-wise
    ops reads everything of an element before it writes anything of it; elements of another size
    lie elsewhere.
    """
    if not node.body:
        return {
            node.results.index(result): tuple(map(node.operands.index, operands))
            for result, operands in node.op.may_overwrite(node.attrs, *node.types).items()
        }
    body = [part for part in node.body if part.launches]
    if not all(part.kind.element_wise for part in body):
        return {}
    kept = set[str]()
    for part in body:
        allowed = overwritable(part).get(0, ())
        kept |= {v.name for i, v in enumerate(part.inputs) if i not in allowed}
    free = [(i, v.type) for i, v in enumerate(node.inputs) if v.name not in kept]
    sizes = [v.type.nbytes for v in node.outputs]
    return {
        output: tuple(i for i, type in free if type.nbytes == size)
        for output, size in enumerate(sizes)
    }


def takes_over(node: Node, state: Value, new: Value, memory: Memory) -> bool:
    """Whether a node may write `new` over a state of which it reads."""
    results = [v.name for v in node.outputs]
    base = memory.whole(new.name)
    if base is None or base not in results:
        return False
    allowed = overwritable(node).get(results.index(base), ())
    return all(
        index in allowed and memory.whole(value.name) == state.name
        for index, value in enumerate(node.inputs)
        if memory.base(value.name)[0] == state.name
    )


def in_place_order(graph: ComputeGraph, memory: Memory) -> dict[Update, list[tuple[int, int]]]:
    """For each update, pairs (i, j): node i writes the new value of the state, so it runs after
    node j, which reads the old one.
    """
    reading, writing = readers(graph, memory), writers(graph)
    return {
        update: [
            (writer, reader)
            for reader in reading.get(update.state.name, ())
            for writer in writing.get(update.new.name, ())
            if reader != writer
        ]
        for update in graph.updates
    }
