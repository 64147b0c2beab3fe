"""fuse: each forward group becomes one kernel; the nodes of an adjoint or recomputed group are covered by kernels.

    %0.linear = linear(%x, %0.weight, %0.bias)   in 0
    %0.relu = relu(%0.linear)                    in 0

becomes

    %0.relu = fused[linear, relu](%x, %0.weight, %0.bias)   in 0
        | %0.linear = linear(%x, %0.weight, %0.bias)
        | %0.relu = relu(%0.linear)

The outputs of a fused node are exactly the body values read outside it: what the backward pass needs is found, not
declared. Nodes of different groups, or of none, are never joined.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import FusionError, VerifyError
from noeira.ir.forms import refusal
from noeira.ir.fused import close
from noeira.ir.graph import ADJOINT, RECOMPUTED, ComputeGraph, Node, Origin
from noeira.passes.base import Pass, same_nodes
from noeira.passes.order import topological


class Positions:
    """Where each value is made and read, to see whether a path leaves a set of nodes and comes back."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.nodes = graph.nodes
        self.index = {id(n): i for i, n in enumerate(graph.nodes)}

    def path_returns(self, body: tuple[Node, ...]) -> bool:
        """Whether joining the nodes would make a cycle: only nodes between the first and the last can tell."""
        inside = {id(n) for n in body}
        made = {v.name for n in body for v in n.outputs}
        tainted = set[str]()
        first, last = self.index[id(body[0])], self.index[id(body[-1])]
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
        groups = defaultdict[str, list[Node]](list)
        for node in graph.nodes:
            if node.group and node.op.launches:
                groups[node.group].append(node)
        positions = Positions(graph)
        home: dict[int, int] = {}
        kernels = list[tuple[Node, ...]]()
        for stamp, members in groups.items():
            for body in self.kernels(graph, stamp, tuple(members), positions):
                if len(body) > 1:
                    home |= {id(n): len(kernels) for n in body}
                    kernels.append(body)
        return replace(graph, nodes=tuple(topological(self.replaced(graph, kernels, home))))

    def kernels(
        self, graph: ComputeGraph, stamp: str, members: tuple[Node, ...], positions: Positions
    ) -> list[tuple[Node, ...]]:
        """The bodies that a group's nodes are joined into."""
        if stamp.endswith((ADJOINT, RECOMPUTED)):
            return cover(members, positions)
        reason = refusal(members)
        if not reason and positions.path_returns(members):
            reason = "a value leaves it and comes back"
        if reason:
            group = graph.group_of(stamp)
            raise FusionError(f"{group.type} at {group.path} cannot be one kernel: {reason}")
        return [members]

    def replaced(
        self, graph: ComputeGraph, kernels: list[tuple[Node, ...]], home: dict[int, int]
    ) -> list[Node]:
        """The nodes with each body's last member replaced by the fused node, the others dropped."""
        readers = defaultdict[str, set[int]](set)
        for node in graph.nodes:
            for value in node.inputs:
                readers[value.name].add(home.get(id(node), -1 - id(node)))
        results = {v.name for v in graph.results()}
        found = list[Node]()
        for node in graph.nodes:
            number = home.get(id(node))
            if number is None:
                found.append(node)
            elif node is kernels[number][-1]:
                body = kernels[number]
                outside = {
                    v.name
                    for part in body
                    for v in part.outputs
                    if v.name in results or readers[v.name] - {number}
                }
                group = graph.group_of(body[0].group)
                found.append(close(body, outside, Origin(group.path, group.type, body[0].origin.by)))
        return found

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return inline(graph)

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """Opened, the fused graph is the graph before, node for node."""
        if not same_nodes(self.undo(after), before):
            raise VerifyError("fuse changed more than it joined")


def cover(members: tuple[Node, ...], positions: Positions) -> list[tuple[Node, ...]]:
    """In order, each node joins the first kernel that it reads from and still fits, else opens its own."""
    kernels = list[tuple[Node, ...]]()
    for node in members:
        for number, body in enumerate(kernels):
            made = {v.name for part in body for v in part.outputs}
            grown = (*body, node)
            if (
                any(v.name in made for v in node.inputs)
                and not refusal(grown)
                and not positions.path_returns(grown)
            ):
                kernels[number] = grown
                break
        else:
            kernels.append((node,))
    return kernels


def inline(graph: ComputeGraph) -> ComputeGraph:
    """Open every fused node."""
    nodes = [part for node in graph.nodes for part in node.parts]
    return replace(graph, nodes=tuple(topological(nodes)))
