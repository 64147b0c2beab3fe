"""recompute: what the backward pass reads of a region is computed again for it, instead of kept.

    %0.linear = linear(%x, %0.weight)   region 0   by trace
    %0.gelu = gelu(%0.linear)           region 0   by trace
    …
    %d.0.linear = gelu.d0(%d.0.gelu, %0.linear)    by vjp

becomes

    %0.linear = linear(%x, %0.weight)   region 0   by trace
    %0.gelu = gelu(%0.linear)           region 0   by trace
    …
    %0.linear^ = linear(%x, %0.weight)             by recompute
    %d.0.linear = gelu.d0(%d.0.gelu, %0.linear^)   by vjp

What is read outside a region by anything but the backward pass is kept: what it takes, as far as
its copies read it, and what it gives. So each region in a chain begins with a value that is there.
A region inside another is computed again twice: with the outer one, of which only what the inner
one takes and gives is then kept, and by itself, as `%0.linear^^`.

A copy stands just before the first node of the backward pass that needs it, those of a fused type
together, stamped `0^`. It reads the same seed, tick and stream as its original, so random numbers
are the same. Updates are never copied: no backward pass reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.graph import RECOMPUTED, ComputeGraph, Node, Value
from noeira.ir.storage import Literal, Memory
from noeira.passes.base import Pass
from noeira.passes.vjp import Vjp

# A node of the graph, by its position, in the computation again of the so-manieth of the regions it
# lies in, the outermost being 1.
Copy = tuple[int, int]


@dataclass(frozen=True)
class Recompute(Pass):
    """Let the backward pass read copies of what lies inside regions."""

    name: ClassVar[str] = "recompute"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        work = Work(graph)
        before = work.placed()
        if not before:
            return graph
        nodes = list[Node]()
        for at, node in enumerate(graph.nodes):
            nodes += (work.copy(one, self.name) for one in before.get(at, ()))
            nodes.append(work.reading(node) if is_backward(node) else node)
        return replace(graph, nodes=tuple(nodes))

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        copies = {v.name for n in graph.nodes if n.origin.by == self.name for v in n.outputs}
        others = {v.name for v in graph.values()} - copies

        def original(value: Value) -> Value:
            name = value.name
            # A name that a module gives may end in the mark, too.
            while name not in others:
                name = name.removesuffix(RECOMPUTED)
            return value if name == value.name else replace(value, name=name)

        def read(node: Node) -> Node:
            if copies.isdisjoint(v.name for v in node.inputs):
                return node
            return replace(node, inputs=tuple(map(original, node.inputs)))

        kept = (node for node in graph.nodes if node.origin.by != self.name)
        return replace(graph, nodes=tuple(map(read, kept)))


def is_backward(node: Node) -> bool:
    """Whether a node is part of the backward pass."""
    return node.origin.by == Vjp.name


class Work:
    """What is kept of a graph, and what is computed again when.

    maker: the position of the node that makes each value. around: for each region, itself and those
    around it, the outermost first.
    """

    def __init__(self, graph: ComputeGraph) -> None:
        self.nodes = graph.nodes
        self.maker = {v.name: i for i, node in enumerate(graph.nodes) for v in node.outputs}
        self.around: dict[str, tuple[str, ...]] = {"": ()}
        for region in graph.regions:
            self.around[region.path] = (*self.around[region.outer], region.path)
        self.memory = Memory(graph)
        self.depths = self.found_depths(graph)

    def found_depths(self, graph: ComputeGraph) -> dict[str, int]:
        """For each value that owns memory, of how many regions, counted from the outermost, it is
        inside: nothing reads it outside these but the backward pass. A literal is everywhere.
        """
        homes: dict[str, tuple[str, ...]] = {}
        for node in graph.nodes:
            if node.region and not isinstance(node.storage, Literal):
                homes |= dict.fromkeys((v.name for v in node.outputs), self.around[node.region])
        found = {name: len(home) for name, home in homes.items()}
        for node in graph.nodes:
            if not is_backward(node):
                for base in self.bases(node.inputs):
                    if base in found:
                        shared = common(homes[base], self.around[node.region])
                        found[base] = min(found[base], shared)
        return found | dict.fromkeys(self.bases(graph.results()), 0)

    def bases(self, values: Iterable[Value]) -> Iterator[str]:
        """The values in whose memory values lie."""
        return (self.memory.base(value.name)[0] for value in values)

    def level(self, value: Value, level: int) -> int:
        """Which copy of a value is read in the computation again of the region of that level; 0 for
        the value itself.
        """
        return min(level, self.depths.get(self.memory.base(value.name)[0], 0))

    def read_by(self, node: Node, level: int) -> Iterator[Copy]:
        """The copies that a node reads at a level."""
        for value in node.inputs:
            if at := self.level(value, level):
                yield self.maker[value.name], at

    def deepest(self, node: Node) -> Iterator[Copy]:
        """The copies that a node of the backward pass reads: of the innermost regions that there
        are.
        """
        return self.read_by(node, len(self.around))

    def placed(self) -> dict[int, list[Copy]]:
        """The copies that are needed, by the position of the node that they stand before, in
        order.
        """
        backward = [at for at, node in enumerate(self.nodes) if is_backward(node)]
        together = defaultdict[tuple[str, int], list[Copy]](list)
        for copy in self.reached((0, self.deepest(self.nodes[at])) for at in backward):
            if group := self.nodes[copy[0]].group:
                together[group, copy[1]].append(copy)
        starts = ((at, self.deepest(self.nodes[at])) for at in backward)
        found = defaultdict[int, list[Copy]](list)
        for copy, at in self.reached(starts, together).items():
            found[at].append(copy)
        # Copies read others of their level above them, and of levels around it.
        return {at: sorted(copies, key=lambda copy: copy[::-1]) for at, copies in found.items()}

    def reached(
        self,
        starts: Iterable[tuple[int, Iterator[Copy]]],
        together: dict[tuple[str, int], list[Copy]] | None = None,
    ) -> dict[Copy, int]:
        """All copies that those of the starts need, each with the mark of the first start that
        leads to it. together: those of a group and a level, of which each leads to all.
        """
        found: dict[Copy, int] = {}
        for mark, first in starts:
            pending = list(first)
            while pending:
                copy = pending.pop()
                if copy not in found:
                    found[copy] = mark
                    node = self.nodes[copy[0]]
                    pending += self.read_by(node, copy[1])
                    pending += (together or {}).get((node.group, copy[1]), ())
        return found

    def copy(self, copy: Copy, by: str) -> Node:
        """The node of a copy."""
        node, level = self.nodes[copy[0]], copy[1]
        mark = RECOMPUTED * level
        return replace(
            node,
            inputs=tuple(self.copied(value, self.level(value, level)) for value in node.inputs),
            outputs=tuple(self.copied(value, level) for value in node.outputs),
            origin=replace(node.origin, by=by),
            group=node.group + mark if node.group else "",
            region="",
        )

    def reading(self, node: Node) -> Node:
        """A node of the backward pass that reads copies."""
        most = len(self.around)
        if not any(self.level(value, most) for value in node.inputs):
            return node
        inputs = tuple(self.copied(value, self.level(value, most)) for value in node.inputs)
        return replace(node, inputs=inputs)

    def copied(self, value: Value, level: int) -> Value:
        """The copy of a value at a level; 0 is the value itself."""
        return replace(value, name=value.name + RECOMPUTED * level) if level else value


def common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """How many of the outermost regions two places share."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((count for count, (one, other) in pairs if one != other), min(len(a), len(b)))
