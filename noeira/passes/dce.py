"""dce: drop the nodes that nothing reads.

%a = relu(%x)                 %b = tanh(%x)
%b = tanh(%x)      becomes    return %b
return %b
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph, Node
from noeira.passes.base import Pass


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Keep what the outputs and updates need."""

    name: ClassVar[str] = "dce"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        live = live_nodes(graph)
        return graph if len(live) == len(graph.nodes) else replace(graph, nodes=tuple(live))

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """What it removed was unreachable; the rest is as it was."""
        kept = set(map(id, after.nodes))
        rest = replace(before, nodes=tuple(n for n in before.nodes if id(n) in kept))
        if after != rest:
            raise VerifyError("dce changed more than the list of nodes")
        read = {v.name for n in after.nodes for v in n.inputs} | {v.name for v in after.results()}
        removed = (n for n in before.nodes if id(n) not in kept)
        for value in (v for n in removed for v in n.outputs if v.name in read):
            raise VerifyError(f"dce removed the node of {value}, which is read")


def live_nodes(graph: ComputeGraph) -> list[Node]:
    """The nodes that lead to a result, in order."""
    read, kept = {v.name for v in graph.results()}, list[Node]()
    for node in reversed(graph.nodes):
        if any(v.name in read for v in node.outputs):
            read |= {v.name for v in node.inputs}
            kept.append(node)
    return kept[::-1]
