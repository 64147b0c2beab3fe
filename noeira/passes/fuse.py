"""fuse: each forward group becomes one kernel; the nodes of an adjoint or recomputed group are
covered by kernels.

    %0.linear = linear(%x, %0.weight, %0.bias)   in 0
    %0.relu = relu(%0.linear)                    in 0

becomes

    %0.relu = fused[linear, relu](%x, %0.weight, %0.bias)   in 0
        | %0.linear = linear(%x, %0.weight, %0.bias)
        | %0.relu = relu(%0.linear)

The outputs of a fused node are exactly the body values read outside it: what the backward pass
needs is found, not declared. Nodes of different groups, or of none, are never joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import FusionError, VerifyError
from noeira.ir.forms import refusal
from noeira.ir.fused import close
from noeira.ir.graph import ADJOINT, RECOMPUTED, ComputeGraph, Node, Origin
from noeira.ir.order import ordered_and_stuck, topological
from noeira.passes.base import Pass, same_nodes

Body = tuple[Node, ...]


class Positions:
    """Where each node stands, to see whether a path leaves a set of nodes and comes back."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.nodes = graph.nodes
        self.index = {id(n): i for i, n in enumerate(graph.nodes)}

    def of(self, node: Node) -> int:
        """Where a node stands."""
        return self.index[id(node)]

    def path_returns(self, body: Body) -> bool:
        """Whether joining the nodes would make a cycle: only nodes between the first and the last
        can tell.
        """
        inside = {id(n) for n in body}
        made = {v.name for n in body for v in n.outputs}
        tainted = set[str]()
        first, last = self.of(body[0]), self.of(body[-1])
        for node in self.nodes[first : last + 1]:
            if id(node) in inside:
                if any(v.name in tainted for v in node.inputs):
                    return True
            elif any(v.name in made or v.name in tainted for v in node.inputs):
                tainted |= {v.name for v in node.outputs}
        return False


@dataclass(frozen=True)
class Fuse(Pass):
    """Join the launching nodes of each group."""

    name: ClassVar[str] = "fuse"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        groups, aside = defaultdict[str, list[Node]](list), beside(graph)
        for node in graph.nodes:
            if node.group and node.launches and id(node) not in aside:
                groups[node.group].append(node)
        positions = Positions(graph)
        bodies = [
            body
            for stamp, members in groups.items()
            for body in bodies_of(graph, stamp, tuple(members), positions)
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
    one more call: what a module keeps account of is no part of its kernel.
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


def bodies_of(graph: ComputeGraph, stamp: str, members: Body, positions: Positions) -> list[Body]:
    """The kernels of several nodes that a group's nodes are joined into. Raises FusionError."""
    if stamp.endswith((ADJOINT, RECOMPUTED)):
        return [body for body in cover(members, positions) if len(body) > 1]
    reason = refusal(members)
    if not reason and positions.path_returns(members):
        reason = "a value leaves it and comes back"
    if reason:
        group = graph.group_of(stamp)
        raise FusionError(f"{group.type} at {group.path} cannot be one kernel: {reason}")
    return [members] if len(members) > 1 else []


def cover(members: Body, positions: Positions) -> list[Body]:
    """In order, each node makes one kernel of all that it reads from, or joins the first of them
    that it still fits, else opens its own.
    """
    kernels = dict[int, Body]()
    home: dict[str, int] = {}
    for node in members:
        for numbers in joinable(node, kernels, home):
            together = (part for number in numbers for part in kernels[number])
            grown = (*sorted(together, key=positions.of), node)
            if not refusal(grown) and not positions.path_returns(grown):
                break
        else:
            numbers, grown = (len(home),), (node,)
        for number in numbers:
            kernels.pop(number, None)
        kernels[numbers[0]] = grown
        home |= {v.name: numbers[0] for part in grown for v in part.outputs}
    return [kernels[number] for number in sorted(kernels)]


def joinable(
    node: Node, kernels: Mapping[int, Body], home: Mapping[str, int]
) -> Iterator[tuple[int, ...]]:
    """The kernels that a node may join: all that it reads from, as one; then each of these; then
    all of them with those that they read from.
    """

    def read_by(parts: Iterable[Node]) -> set[int]:
        return {home[v.name] for part in parts for v in part.inputs if v.name in home}

    found = read_by([node])
    if len(found) > 1:
        yield tuple(sorted(found))
    yield from ((number,) for number in sorted(found))
    while (wider := found | read_by(part for n in found for part in kernels[n])) != found:
        found = wider
        yield tuple(sorted(found))


def joined(graph: ComputeGraph, bodies: Sequence[Body]) -> list[Node]:
    """The nodes with each body's last member replaced by the fused node, the others dropped."""
    home = {id(node): number for number, body in enumerate(bodies) for node in body}
    outside = read_outside(graph, home)
    found = list[Node]()
    for node in graph.nodes:
        number = home.get(id(node))
        if number is None:
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
    """The values that results need, or a node in another kernel than the one that makes them."""
    maker = {v.name: home.get(id(node)) for node in graph.nodes for v in node.outputs}
    found = {v.name for v in graph.results()}
    for node in graph.nodes:
        reader = home.get(id(node))
        found |= {v.name for v in node.inputs if reader is None or maker.get(v.name) != reader}
    return found


def loosened(graph: ComputeGraph, stuck: Sequence[Node]) -> list[Node]:
    """Of kernels that wait for each other, each fine by itself, the ones to open: the last covered
    one of each ring.

    Raises FusionError if fused types ask for all the kernels of a ring.
    """
    import networkx

    maker = {v.name: node for node in stuck for v in node.outputs}
    reads = networkx.DiGraph(
        (maker[v.name].outputs[0].name, node.outputs[0].name)
        for node in stuck
        for v in node.inputs
        if v.name in maker
    )
    found = list[Node]()
    for ring in networkx.strongly_connected_components(reads):
        kernels = [node for node in stuck if node.body and node.outputs[0].name in ring]
        covered = [node for node in kernels if node.group.endswith((ADJOINT, RECOMPUTED))]
        if len(ring) > 1 and covered:
            found.append(covered[-1])
        elif len(ring) > 1:
            names = [f"{g.type} at {g.path}" for g in (graph.group_of(n.group) for n in kernels)]
            raise FusionError(
                f"{' and '.join(names)} cannot be one kernel each: "
                "they wait for each other's values"
            )
    return found


def inline(graph: ComputeGraph) -> ComputeGraph:
    """Open every fused node."""
    nodes = [part for node in graph.nodes for part in node.parts]
    return replace(graph, nodes=tuple(topological(nodes)))
