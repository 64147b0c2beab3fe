"""Runs: neighbours that one kernel could do, in chains and graphs of modules, found on the type
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from noeira.errors import NoeiraError
from noeira.ir.graph import ROOT
from noeira.nn.combinators import ExternalNode, Fused, Graph, Node, Sequential
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
    """Neighbours, and the fused type that does them in one kernel. write: what to write, the type
    or a node of it; wrote: what stands there now.
    """

    links: tuple[Link, ...]
    fused: type[Module]
    write: str
    wrote: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the neighbours are."""
        return tuple(link.path for link in self.links)

    def hint(self, launches: int) -> str:
        """What to write."""
        return f"{launches} launches; write {self.write} for 1"


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
        yield from inside(links[start])
        start += 1


def inside(link: Link) -> Iterator[Run]:
    """The runs inside a module that is in none."""
    path = "" if link.path == ROOT else link.path
    if issubclass(link.module, Graph) and runs_its_nodes(link.module):
        yield from graph_runs(link.module.wiring(), path)
    elif not issubclass(link.module, Fused):
        for name, child in link.module.inside:
            yield from runs_of(chain(child, joined(path, name)))


def longest(links: list[Link]) -> Run | None:
    """The longest run from the first link on; None if that fits with no other."""
    found = None
    for count in range(2, len(links) + 1):
        fused = fused_type(tuple(part for link in links[:count] for part in link.parts()))
        if fused is None:
            break
        run = tuple(links[:count])
        found = Run(run, fused, repr(fused), tuple(repr(link.module) for link in run))
    return found


@lru_cache(maxsize=1024)
def fused_type(parts: tuple[type[Module] | Node, ...]) -> type[Fused] | None:
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


def runs_its_nodes(graph: type[Graph]) -> bool:
    """Whether a graph has no trace of its own."""
    return graph.trace.__func__ is Graph.trace.__func__  # type: ignore[attr-defined]


def graph_runs(wiring: Wiring, path: str) -> Iterator[Run]:
    """The runs of a graph at a path and, where a node is in none, those inside it."""
    # What an ExternalNode uses stays where it is, and so does that node.
    external = [one for one in wiring.nodes if isinstance(one, ExternalNode)]
    fixed = {name for one in external for name in (one.name, one.path.partition(".")[0])}
    fixed |= {one.name for one in wiring.nodes if len(one.module.shapes().outputs) > 1}
    taken = set[str]()
    for at, node in enumerate(wiring.nodes):
        if node.name in taken or node in external:
            continue
        members = () if node.name in fixed else longest_from(wiring, at, fixed | taken)
        taken |= {one.name for one in members}
        if members:
            yield run_of_nodes(members, path)
        else:
            yield from runs_of(chain(node.module, joined(path, node.name)))


def longest_from(wiring: Wiring, at: int, others: set[str]) -> tuple[Node, ...]:
    """The longest run of nodes from one on, each of which reads one before it, and only the last is
    read elsewhere. Empty if no kernel does more than the first, without what is in the others.
    """
    members, found = [wiring.nodes[at]], tuple[Node, ...]()
    for node in wiring.nodes[at + 1 :]:
        if {one.name for one in members}.isdisjoint(map(name_of, node.inputs)):
            continue
        members.append(node)
        if node.name in others:
            break
        if is_closed(wiring, members):
            if fused_nodes(members) is None:
                break
            found = tuple(members)
    return found


def is_closed(wiring: Wiring, members: Sequence[Node]) -> bool:
    """Whether nodes but the last are read by these nodes alone."""
    outside = (node for node in wiring.nodes if node not in members)
    read = {name_of(name) for node in outside for name in node.inputs}
    read |= set(map(name_of, wiring.outputs))
    return read.isdisjoint(one.name for one in members[:-1])


def run_of_nodes(members: Sequence[Node], path: str) -> Run:
    """The run of nodes that one kernel can do."""
    fused = fused_nodes(members)
    assert fused is not None
    wiring = fused.wiring()
    inputs = tuple(slot.name for slot in wiring.slots) if wiring else members[0].inputs
    links = tuple(Link(joined(path, one.name), one.module) for one in members)
    write = Node(members[-1].name, fused, inputs)
    return Run(links, fused, repr(write), tuple(map(repr, members)))


def fused_nodes(members: Sequence[Node]) -> type[Fused] | None:
    """The type that does nodes in one kernel, a chain or a small graph; None if no kernel can."""
    pairs = pairwise(members)
    if len(members[0].inputs) == 1 and all(after.inputs == (one.name,) for one, after in pairs):
        return fused_type(tuple(part for one in members for part in Link("", one.module).parts()))
    return fused_type(tuple(Node(one.name, opened(one.module), one.inputs) for one in members))


def opened(module: type[Module]) -> type[Module]:
    """A module as it can stand in a fused graph: a kernel has no kernels inside."""
    if not issubclass(module, Fused):
        return module
    if wiring := module.wiring():
        return Graph.parametrised((*wiring.slots, *module.LAYERS), {})
    return Sequential.parametrised(module.parts(), {})
