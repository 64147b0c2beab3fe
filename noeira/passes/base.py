"""What a pass is: a frozen dataclass whose fields are its options, with an undo that proves what it
kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import ParseError, VerifyError
from noeira.ir.attributes import filled
from noeira.ir.graph import ComputeGraph, State, Value, attr_items
from noeira.ir.packages import import_all
from noeira.ir.states import PARAMS
from noeira.ir.text.dump import parse_fields
from noeira.ir.text.lexer import literal

PASSES: dict[str, type[Pass]] = {}


@dataclass(frozen=True)
class Pass:
    """Graph to graph. Never mutates; valid before, valid after. Subclasses with a `name` are found
    by it.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            PASSES[cls.name] = cls

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        """The graph after the pass."""
        raise NotImplementedError(f"{type(self).__name__}.__call__")

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        """The graph before the pass, from the graph after it."""
        raise NotImplementedError(f"{type(self).__name__}.undo")

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """Raises VerifyError if undoing the pass does not give back what it was given."""
        if self.undo(after) != before:
            raise VerifyError(f"{self.name}: its undo does not give back the graph it was given")

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {literal(value)}" for name, value in attr_items(self))
        return f"{self.name}{{{shown}}}" if shown else self.name


@dataclass(frozen=True)
class Extends(Pass):
    """A pass that only appends: nodes, states, updates of either, and results. What was there
    before stays, in its order; what the pass emitted is stamped with its name, and undoing it drops
    that.
    """

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        emitted = {v.name for n in graph.nodes if n.origin.by == self.name for v in n.outputs}
        emitted |= {s.value.name for s in graph.states if s.by == self.name}
        return replace(
            graph,
            states=tuple(s for s in graph.states if s.by != self.name),
            nodes=tuple(n for n in graph.nodes if n.origin.by != self.name),
            updates=tuple(u for u in graph.updates if emitted.isdisjoint(u.names())),
            outputs=tuple(v for v in graph.outputs if v.name not in emitted),
        )


def defined(graph: ComputeGraph, name: str, by: str) -> Value:
    """The value called `name` that a node of the graph gives. Raises VerifyError if the pass `by`
    comes too early.
    """
    for node in reversed(graph.nodes):
        for value in node.outputs:
            if value.name == name:
                return value
    raise VerifyError(f"{by}: no node gives %{name}")


def parameters(graph: ComputeGraph, by: str) -> State:
    """The flat state of the parameters. Raises VerifyError if the graph has none."""
    for state in graph.states:
        if state.value.name == PARAMS:
            return state
    raise VerifyError(f"{by}: @{graph.name} has no parameters, so there is nothing to train")


def same_nodes(a: ComputeGraph, b: ComputeGraph) -> bool:
    """Whether two graphs are equal but for the order of nodes (which named SSA leaves free)."""
    if replace(a, nodes=()) != replace(b, nodes=()):
        return False
    # Passes keep the very nodes that they do not change, and comparing those costs nothing.
    return Counter(map(id, a.nodes)) == Counter(map(id, b.nodes)) or Counter(a.nodes) == Counter(
        b.nodes
    )


def all_passes() -> dict[str, type[Pass]]:
    """Every pass by its name: those of noeira, whose modules are imported, and those that were
    defined elsewhere.
    """
    import_all("noeira.passes")
    return PASSES


def parse_pass(text: str) -> Pass:
    """The pass a text such as `vjp` or `resident{samples = 100}` names. Raises ParseError."""
    name, options = parse_fields(text)
    known = all_passes()
    if name not in known:
        raise ParseError(f"line 2: there is no pass {name!r}; there are {', '.join(sorted(known))}")
    try:
        return filled(name, known[name], options)
    except VerifyError as error:
        raise ParseError(f"line 2: {error}") from None
