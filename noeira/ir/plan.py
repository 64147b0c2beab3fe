"""The plan: the calls of a graph in order, the stages of each, and a place in memory for every
value.

Its text is the graph's text followed by

    plan @mlp.step for c avx512 {
      arena 812544
      place %0.relu: arena + 0 size 102400 live 2 to 13
      place %loss: output %loss + 0 size 4 live 4 to 24
      place %d.loss: literal 1.0
      call %0.relu: gemm{rows = 10, panels = 4}
      call %lse: rows{} total{} workspace arena + 812032 size 512
    }

Every launching node is one call, in graph order; a call is one or more stages, each begun when all
of the one before is done, and may have a workspace that lives only during it. Of a kernel of
several phases, stages say which they are of: `gemm{…} column.chunks{…} column.total{} map{…}`.
Places are in the step's arena, in an input's, a state's or an output's own memory, or literals in
the program's read-only data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.text.lexer import literal
from noeira.ir.text.printer import graph_text

VERSION = "// noeira-plan 1"
ARENA, INPUT, STATE, OUTPUT, LITERAL = "arena", "input", "state", "output", "literal"


def root_of(kind: str, name: str) -> str:
    """What the memory of an input, a state or an output is called, and a literal with its text:
    `state params`, `literal 1.0`.
    """
    return f"{kind} {name}"


def split_root(root: str) -> tuple[str, str]:
    """The kind of a root, and whose memory it is or the text of the literal; "" of the arena."""
    kind, _, name = root.partition(" ")
    return kind, name


@dataclass(frozen=True)
class Place:
    """Where a value lies: `offset` bytes into a root, for `size` bytes, from call `first` to call
    `last`.

    root: `arena`, or `input NAME`, `state NAME`, `output NAME`, or `literal TEXT`.
    """

    name: str
    root: str
    offset: int = 0
    size: int = 0
    first: int = 0
    last: int = 0

    @property
    def kind(self) -> str:
        """What the root is."""
        return split_root(self.root)[0]

    @property
    def owner(self) -> str:
        """Whose memory it is, or the literal's text."""
        return split_root(self.root)[1]


@dataclass(frozen=True)
class Stage:
    """One function of a call's kernel, and the target's choices for it."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def split(self) -> bool:
        """Whether threads share its work; else one does it."""
        return dict(self.options).get("split", False)

    def __str__(self) -> str:
        options = ", ".join(f"{key} = {literal(value)}" for key, value in self.options)
        return f"{self.name}{{{options}}}"


@dataclass(frozen=True)
class Choice:
    """How a target runs a node: its stages, and the bytes of workspace they share."""

    stages: tuple[Stage, ...]
    workspace: int = 0


# A target's rule: deterministic, never timed.
Choose = Callable[[Node], Choice]


@dataclass(frozen=True)
class Call:
    """A launching node, how the target runs it, and where its workspace is (an offset in the
    arena).
    """

    node: Node
    choice: Choice
    workspace: int = 0


@dataclass(frozen=True)
class Plan:
    """A graph that knows where everything lies: calls correspond one to one to the graph's
    launching nodes.
    """

    graph: ComputeGraph
    target: str
    calls: tuple[Call, ...]
    places: tuple[Place, ...]
    arena: int

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.graph.name

    @cached_property
    def place(self) -> dict[str, Place]:
        """Places by the name of the value."""
        return {p.name: p for p in self.places}

    def peak_bytes(self) -> int:
        """Bytes that a call needs in all: arena, inputs, states and outputs."""
        own = [i.value for i in self.graph.inputs] + [s.value for s in self.graph.states]
        return self.arena + sum(v.type.nbytes for v in (*own, *self.graph.outputs))

    def __str__(self) -> str:
        lines = [f"{VERSION}\n{graph_text(self.graph)}plan @{self.name} for {self.target} {{"]
        lines.append(f"  arena {self.arena}")
        lines += [f"  {place_text(p)}" for p in self.places]
        lines += [f"  {call_text(c)}" for c in self.calls]
        return "\n".join([*lines, "}", ""])


def place_text(place: Place) -> str:
    """One place."""
    if place.kind == LITERAL:
        return f"place %{place.name}: {place.root}"
    root = place.kind if place.kind == ARENA else f"{place.kind} %{place.owner}"
    where = f"{root} + {place.offset} size {place.size} live {place.first} to {place.last}"
    return f"place %{place.name}: {where}"


def call_text(call: Call) -> str:
    """One call, named by its first result."""
    text = f"call {call.node.outputs[0]}: {' '.join(map(str, call.choice.stages))}"
    if call.choice.workspace:
        text += f" workspace {ARENA} + {call.workspace} size {call.choice.workspace}"
    return text
