"""Runs: neighbours in a chain or a graph of modules that one kernel could do, found on the type
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from noeira.errors import NoeiraError
from noeira.ir.graph import ROOT, ComputeGraph, Origin
from noeira.ir.graph import Node as Call
from noeira.ir.states import PARAMS, is_of_program
from noeira.nn.combinators import Fused
from noeira.nn.combinators.declarations import ExternalNode, Node
from noeira.nn.combinators.graph import Graph
from noeira.nn.combinators.wiring import Wiring, name_of
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


def served(graph: ComputeGraph, known: Mapping[str, Run]) -> Iterator[tuple[Call, Run]]:
    """The launches of each run that its kernel would do, in order. What only leads to new values of
    modules' states is no part of a kernel.
    """
    needed = {v.name for v in graph.outputs}
    for state, new in (update.names() for update in graph.updates):
        if state == PARAMS or is_of_program(state):
            needed.add(new)
    found = list[tuple[Call, Run]]()
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
        if issubclass(link.module, Graph):
            yield from runs_of_graph(link.module.wiring(), link.path)
        elif not issubclass(link.module, Fused):
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


def runs_of_graph(wiring: Wiring, path: str) -> Iterator[Run]:
    """The runs of nodes that follow each other in a graph, and those inside nodes that are in none.
    Of nodes that use each other's result alone and give one on, a kernel can be made.
    """
    start = 0
    while start < len(wiring.nodes):
        run = longest_of_graph(wiring, start, path)
        if run is not None:
            yield run
            start += len(run.links)
            continue
        node = wiring.nodes[start]
        start += 1
        if not isinstance(node, ExternalNode):
            yield from runs_of(chain(node.module, place_of(path, node)))


def longest_of_graph(wiring: Wiring, start: int, path: str) -> Run | None:
    """The longest run from a node on; None if that fits with no other."""
    found, made = None, {wiring.nodes[start].name}
    for end in range(start + 1, len(wiring.nodes)):
        nodes = wiring.nodes[start : end + 1]
        if made.isdisjoint(map(name_of, nodes[-1].inputs)):
            break
        made.add(nodes[-1].name)
        if any(isinstance(n, ExternalNode) or issubclass(n.module, Fused) for n in nodes):
            break
        fused = fused_type(in_turn(nodes) or nodes)
        if fused is None:
            break
        if gives_one(wiring, nodes, made):
            found = Run(tuple(Link(place_of(path, node), node.module) for node in nodes), fused)
    return found


def place_of(path: str, node: Node) -> str:
    """Where a node of a graph at a path stands in the network."""
    return joined("" if path == ROOT else path, node.name)


def in_turn(nodes: Sequence[Node]) -> tuple[type[Module], ...]:
    """The modules of nodes that each read the one before and nothing else; none if any does not."""
    pairs = pairwise(nodes)
    alone = all(node.inputs == (before.name,) for before, node in pairs)
    return tuple(node.module for node in nodes) if alone and len(nodes[0].inputs) == 1 else ()


def gives_one(wiring: Wiring, nodes: Sequence[Node], made: Set[str]) -> bool:
    """Whether of what nodes make only the last one's is read by others."""
    others = (node for node in wiring.nodes if node not in nodes)
    read = {name_of(name) for node in others for name in node.inputs}
    read |= {name_of(name) for name in wiring.outputs}
    return made & read <= {nodes[-1].name}


@lru_cache(maxsize=1024)
def fused_type(parts: tuple[Any, ...]) -> type[Module] | None:
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
