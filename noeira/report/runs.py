"""Runs: neighbours in a chain of modules that one kernel could do, found on the type alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from noeira.errors import NoeiraError
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin
from noeira.ir.states import PARAMS, is_of_program
from noeira.nn.combinators import Fused
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import joined


@dataclass(frozen=True)
class Link:
    """A module in a chain, and its path in the network."""

    path: str
    module: type[Module]

    def parts(self) -> tuple[type[Module], ...]:
        """What a fused type around it would list."""
        return self.module.listed() if issubclass(self.module, Fused) else (self.module,)


@dataclass(frozen=True)
class Run:
    """Neighbours, and the fused type that does them in one kernel."""

    links: tuple[Link, ...]
    fused: type[Module]

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the neighbours are."""
        return tuple(link.path for link in self.links)

    def hint(self, launches: int) -> str:
        """What to write."""
        return f"{launches} launches; write {self.fused!r} for 1"


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


def fusible_runs(net: type[Module]) -> tuple[Run, ...]:
    """The longest runs of a network, in its order, none overlapping another."""
    return tuple(runs_of(chain(net, "")))


def runs_of(links: list[Link]) -> Iterator[Run]:
    """The runs of a chain and, where a module is in none, those inside it."""
    start = 0
    while start < len(links):
        run = longest(links[start:])
        if run is not None:
            yield run
            start += len(run.links)
            continue
        link = links[start]
        start += 1
        if not issubclass(link.module, Fused):
            for name, child in link.module.inside:
                yield from runs_of(chain(child, joined(link.path, name)))


def longest(links: list[Link]) -> Run | None:
    """The longest run from the first link on; None if that fits with no other."""
    found = None
    for count in range(2, len(links) + 1):
        fused = fused_type(tuple(part for link in links[:count] for part in link.parts()))
        if fused is None:
            break
        found = Run(tuple(links[:count]), fused)
    return found


@lru_cache(maxsize=1024)
def fused_type(parts: tuple[type[Module], ...]) -> type[Module] | None:
    """The type that does the parts in one kernel; None if no kernel can."""
    try:
        return Fused.parametrised(parts, {})
    except NoeiraError:
        return None


def chain(module: type[Module], path: str) -> list[Link]:
    """The modules that run one after the other, those of chains inside it in their place."""
    if not module.in_turn:
        return [Link(path or ROOT, module)]
    parts = [(joined(path, name), part) for name, part in module.inside]
    return [link for place, part in parts for link in chain(part, place)]
