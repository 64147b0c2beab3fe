"""fuse: each forward group becomes one kernel; the nodes of an adjoint or recomputed group are
covered by kernels.

    %0.linear = linear(%x, %0.weight, %0.bias)   in 0
    %0.relu = relu(%0.linear)                    in 0

becomes

    %0.relu = fused[linear, relu](%x, %0.weight, %0.bias)   in 0
        | %0.linear = linear(%x, %0.weight, %0.bias)
        | %0.relu = relu(%0.linear)

The outputs of a fused node are exactly the body values read outside it: what the backward pass
needs is found, not declared. A view through which its parts read each other is in the body, too.
Nodes of different groups, or of none, are never joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import FusionError, VerifyError
from noeira.ir.forms import refusal
from noeira.ir.fused import close, is_whole, viewed, views_of, with_views
from noeira.ir.graph import ADJOINT, RECOMPUTED, ComputeGraph, Node, Origin, Value
from noeira.ir.order import ordered_and_stuck, rings, topological
from noeira.ir.structure import structure
from noeira.passes.base import Pass, same_nodes

Body = tuple[Node, ...]
# Fewer nodes than these are tried one after the other.
SEVERAL = 6


class Work:
    """Where each node of a graph stands, who reads it, and what can be one piece of work."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.nodes = graph.nodes
        self.index = {id(n): i for i, n in enumerate(graph.nodes)}
        self.views = views_of(graph.nodes)
        self.reasons = dict[object, str]()
        self.readers = defaultdict[str, list[int]](list)
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                self.readers[value.name].append(i)

    def seen(self, value: Value) -> str:
        """The name of the value that a value lies in, seen through views of all of it."""
        view = self.views.get(value.name)
        return self.seen(viewed(view)) if view and is_whole(view) else value.name

    def refusal(self, body: Body, given: Sequence[Value] = ()) -> str:
        """Why nodes, with their views, cannot be one kernel; empty if they can. given: what of it
        counts as read outside.
        """
        form = structure(body, given)
        if form not in self.reasons:
            self.reasons[form] = refusal(body, given)
        if reason := self.reasons[form]:
            return reason
        return "a value leaves it and comes back" if self.path_returns(body) else ""

    def given(self, body: Body) -> tuple[Value, ...]:
        """What nodes outside read of what nodes make."""
        inside = set(map(self.of, body))
        return tuple(
            value
            for node in body
            for value in node.outputs
            if not inside.issuperset(self.readers.get(value.name, ()))
        )

    def of(self, node: Node) -> int:
        """Where a node stands."""
        return self.index[id(node)]

    def path_returns(self, body: Body) -> bool:
        """Whether joining the nodes would make a cycle: what reads them outside leads to one."""
        inside, last = set(map(self.of, body)), self.of(body[-1])
        pending, seen = list(body), set[int]()
        while pending:
            node = pending.pop()
            for reader in (i for value in node.outputs for i in self.readers[value.name]):
                if reader in inside:
                    if self.of(node) not in inside:
                        return True
                elif reader < last and reader not in seen:
                    seen.add(reader)
                    pending.append(self.nodes[reader])
        return False


@dataclass(frozen=True)
class Fuse(Pass):
    """Join the launching nodes of each group."""

    name: ClassVar[str] = "fuse"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        groups, aside = defaultdict[str, list[Node]](list), beside(graph)
        for node in graph.nodes:
            if node.group and node.launches:
                groups[node.group].append(node)
        work = Work(graph)
        bodies = [
            body
            for stamp, members in groups.items()
            for body in bodies_of(graph, stamp, tuple(members), aside, work)
        ]
        while True:
            ordered, stuck = ordered_and_stuck(joined(graph, bodies))
            if not stuck:
                return replace(graph, nodes=tuple(ordered))
            opened = {id(part) for node in loosened(graph, stuck) for part in node.body}
            bodies = [body for body in bodies if id(body[0]) not in opened]

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return inline(graph)

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """Opened, the fused graph is the graph before, node for node."""
        if not same_nodes(self.undo(after), before):
            raise VerifyError("fuse changed more than it joined")


def beside(graph: ComputeGraph) -> set[int]:
    """The nodes of forward groups, as ids, that only lead to updates, through each other, views and
    one more call: what a module keeps account of, which may be no part of its kernel.
    """
    updating = {u.new.name for u in graph.updates}
    needed, kept, found = {v.name for v in graph.outputs}, set(updating), set[int]()
    for node in reversed(graph.nodes):
        results, read = {v.name for v in node.outputs}, {v.name for v in node.inputs}
        forward = bool(node.group) and not node.group.endswith((ADJOINT, RECOMPUTED))
        last = not node.launches or not updating.isdisjoint(results)
        if needed.isdisjoint(results) and not kept.isdisjoint(results) and (forward or last):
            kept |= read
            if forward:
                found.add(id(node))
        else:
            needed |= read
    return found


def bodies_of(
    graph: ComputeGraph, stamp: str, members: Body, aside: Set[int], work: Work
) -> list[Body]:
    """The kernels of several nodes that a group's nodes are joined into: one if that can be, for a
    forward group without those aside if it must be. Raises FusionError.
    """
    body = with_views(members, work.views)
    if len(members) == 1:
        return []
    if not (reason := work.refusal(body)):
        return [body]
    if stamp.endswith((ADJOINT, RECOMPUTED)):
        return [body for body in cover(members, work) if len(body) > 1]
    kept = tuple(node for node in members if id(node) not in aside)
    if len(kept) < len(members):
        return bodies_of(graph, stamp, kept, aside, work) if kept else []
    group = graph.group_of(stamp)
    raise FusionError(f"{group.type} at {group.path} cannot be one kernel: {reason}")


def cover(members: Body, work: Work) -> list[Body]:
    """In order, each node makes one kernel of all that it reads from, or joins the first of them
    that it still fits, else opens its own; then these make one of all that they read from, too.

    Several are tried at once: half of what was refused, twice as many as were taken. So what makes
    one large kernel is not asked for again after each node.
    """
    found, at, count = Cover(work), 0, len(members) // 2
    while at < len(members):
        run = members[at : at + count]
        if count < SEVERAL:
            count = count + 1 if found.place(members[at]) else 0
            at += 1
        elif found.join_all(run):
            at, count = at + len(run), 2 * count
        else:
            count = min(count, len(run)) // 2
    return [found.kernels[number] for number in sorted(found.kernels)]


class Cover:
    """Kernels, numbered, and the number of the one that makes each value."""

    def __init__(self, work: Work) -> None:
        self.work, self.kernels, self.home = work, dict[int, Body](), dict[str, int]()

    def read_by(self, parts: Iterable[Node]) -> set[int]:
        """The kernels that make what parts read."""
        names = (self.work.seen(value) for part in parts for value in part.inputs)
        return {self.home[name] for name in names if name in self.home}

    def join_all(self, run: Body) -> bool:
        """Make one kernel of nodes and all that they read from, if that can be."""
        taken = tuple(sorted(self.read_by(run)))
        grown = self.together(taken, run)
        if grown:
            self.keep(grown, taken)
        return bool(grown)

    def place(self, node: Node) -> bool:
        """Give a node a kernel; whether it joins one."""
        grown, taken = (node,), tuple[int, ...]()
        for numbers in self.joinable(self.read_by(grown)):
            if wider := self.together(numbers, (node,)):
                grown, taken = wider, numbers
                break
        while taken and (numbers := tuple(sorted({*taken, *self.read_by(grown)}))) != taken:
            if not (wider := self.together(numbers, (node,))):
                break
            grown, taken = wider, numbers
        self.keep(grown, taken)
        return bool(taken)

    def joinable(self, found: set[int]) -> Iterator[tuple[int, ...]]:
        """The kernels that a node may join, which reads from those found: all of these, as one;
        then each; then all with those that they read from.
        """
        if len(found) > 1:
            yield tuple(sorted(found))
        yield from ((number,) for number in sorted(found))
        while (wider := found | self.read_by(self.parts(found))) != found:
            found = wider
            yield tuple(sorted(found))

    def parts(self, numbers: Iterable[int]) -> Iterator[Node]:
        """The nodes of kernels."""
        return (part for number in numbers for part in self.kernels[number])

    def together(self, numbers: tuple[int, ...], run: Body) -> Body:
        """Kernels and nodes as one; nothing if they cannot be."""
        parts = (part for part in self.parts(numbers) if part.launches)
        grown = with_views((*sorted(parts, key=self.work.of), *run), self.work.views)
        return () if self.work.refusal(grown, self.work.given(grown)) else grown

    def keep(self, grown: Body, taken: tuple[int, ...]) -> None:
        """Put a kernel in place of those that were taken into it."""
        number = taken[0] if taken else len(self.home)
        for one in taken:
            del self.kernels[one]
        self.kernels[number] = grown
        self.home |= {v.name: number for part in grown for v in part.outputs}


def joined(graph: ComputeGraph, bodies: Sequence[Body]) -> list[Node]:
    """The nodes with each body's last member replaced by the fused node, the others dropped but for
    views that are read outside.
    """
    home = {id(node): number for number, body in enumerate(bodies) for node in body}
    outside = read_outside(graph, home)
    found = list[Node]()
    for node in graph.nodes:
        number = home.get(id(node))
        if number is None or (not node.launches and node.outputs[0].name in outside):
            found.append(node)
        elif node is bodies[number][-1]:
            body = bodies[number]
            group = graph.group_of(body[0].group)
            fused = close(body, outside, Origin(group.path, group.type, body[0].origin.by))
            if not fused.outputs:
                raise VerifyError(
                    f"fuse: nothing reads what {group.type} at {group.path} gives: run dce before"
                )
            found.append(fused)
    return found


def read_outside(graph: ComputeGraph, home: dict[int, int]) -> set[str]:
    """The values that results need, or a node in another kernel than the one that makes them. A
    view in a kernel that is read outside stands outside as well.
    """
    maker = {v.name: home.get(id(node)) for node in graph.nodes for v in node.outputs}
    found = {v.name for v in graph.results()}
    for node in reversed(graph.nodes):
        reader = home.get(id(node))
        if reader is not None and not node.launches:
            if node.outputs[0].name not in found:
                continue
            reader = None
        found |= {v.name for v in node.inputs if reader is None or maker.get(v.name) != reader}
    return found


def loosened(graph: ComputeGraph, stuck: Sequence[Node]) -> list[Node]:
    """Of kernels that wait for each other, each fine by itself, the ones to open: the last covered
    one of each ring.

    Raises FusionError if fused types ask for all the kernels of a ring.
    """
    found = list[Node]()
    for ring in rings(stuck):
        kernels = [stuck[index] for index in sorted(ring) if stuck[index].body]
        covered = [node for node in kernels if node.group.endswith((ADJOINT, RECOMPUTED))]
        if covered:
            found.append(covered[-1])
        else:
            names = [f"{g.type} at {g.path}" for g in (graph.group_of(n.group) for n in kernels)]
            raise FusionError(
                f"{' and '.join(names)} cannot be one kernel each: "
                "they wait for each other's values"
            )
    return found


def inline(graph: ComputeGraph) -> ComputeGraph:
    """Open every fused node. A view may stand in one and outside, too."""
    nodes = {part.outputs: part for node in graph.nodes for part in node.parts}
    return replace(graph, nodes=tuple(topological(tuple(nodes.values()))))
