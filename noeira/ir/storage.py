"""Views lie in the memory of other values: who reads and writes a value, seen through them."""

from __future__ import annotations

from collections import defaultdict

from noeira.ir.graph import ComputeGraph


def reshaped(graph: ComputeGraph) -> dict[str, str]:
    """For each reshape, the value that it is another shape of, itself no reshape."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.op.name == "reshape":
            source = node.inputs[0].name
            found[node.outputs[0].name] = found.get(source, source)
    return found


def readers(graph: ComputeGraph, bases: dict[str, str]) -> dict[str, list[int]]:
    """For each value, the launching nodes, as positions, that read it in any shape."""
    found = defaultdict[str, list[int]](list)
    for index, node in enumerate(graph.nodes):
        if node.op.launches:
            for value in node.inputs:
                found[bases.get(value.name, value.name)].append(index)
    return found


def writers(graph: ComputeGraph) -> dict[str, list[int]]:
    """For each value, the launching nodes, as positions, that write it: those of the operands, if
    it is a view.
    """
    found: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        own = [index]
        if not node.op.launches:
            own = [writer for value in node.inputs for writer in found.get(value.name, ())]
        found |= dict.fromkeys((v.name for v in node.outputs), own)
    return found
