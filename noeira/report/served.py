"""Which launches of a graph the kernel of a run would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from noeira.ir.graph import ComputeGraph, Node, Origin
from noeira.ir.states import PARAMS, is_of_program
from noeira.report.runs import Run


def by_path(runs: Iterable[Run]) -> dict[str, Run]:
    """The runs by the path of each of their neighbours."""
    return {path: run for run in runs for path in run.paths}


def run_of(origin: Origin, known: Mapping[str, Run]) -> Run | None:
    """The run whose forward pass a node of that origin belongs to; `known` has them by path."""
    path = origin.path if origin.by == "trace" else ""
    while path and path not in known:
        path = path.rpartition(".")[0]
    return known.get(path)


def served(graph: ComputeGraph, known: Mapping[str, Run]) -> Iterator[tuple[Node, Run]]:
    """The launches of each run that its kernel would do, in order. What only leads to new values of
    modules' states is no part of a kernel.
    """
    needed = {v.name for v in graph.outputs}
    for state, new in (update.names() for update in graph.updates):
        if state == PARAMS or is_of_program(state):
            needed.add(new)
    found = list[tuple[Node, Run]]()
    for node in reversed(graph.nodes):
        if needed.isdisjoint(v.name for v in node.outputs):
            continue
        needed |= {v.name for v in node.inputs}
        run = run_of(node.origin, known)
        if run is not None and node.launches:
            found.append((node, run))
    yield from reversed(found)
