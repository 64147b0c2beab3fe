"""The plan: the calls of a graph in order, the stages of each, and a place in memory for every value.

Its text is the graph's text followed by

    plan @mlp.step for c avx512 {
      arena 812544
      place %0.relu: arena + 0 size 102400 live 2 to 13
      place %loss: output %loss + 0 size 4 live 4 to 24
      place %d.loss: literal 1.0
      call %0.relu: gemm{rows = 10, panels = 4}
      call %lse: rows{} total{} workspace arena + 812032 size 512
    }

Every launching node is one call, in graph order; a call is one or more stages with a barrier between, and may have a
workspace that lives only during it. Places are in the step's arena, in an input's, a state's or an output's own memory,
or literals in the program's read-only data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from noeira.errors import ParseError
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.lexer import Line, literal
from noeira.ir.text import graph_text, parse_graph, significant

VERSION = "// noeira-plan 1"
ARENA, INPUT, STATE, OUTPUT, LITERAL = "arena", "input", "state", "output", "literal"


@dataclass(frozen=True)
class Place:
    """Where a value lies: `offset` bytes into a root, for `size` bytes, from call `first` to call `last`.

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
        return self.root.partition(" ")[0]

    @property
    def owner(self) -> str:
        """Whose memory it is, or the literal's text."""
        return self.root.partition(" ")[2]


@dataclass(frozen=True)
class Stage:
    """One function of a call's kernel, and the target's choices for it."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(f'{key} = {literal(value)}' for key, value in self.options)}}}"


@dataclass(frozen=True)
class Choice:
    """How a target runs a node: its stages, and the bytes of workspace they share."""

    stages: tuple[Stage, ...]
    workspace: int = 0


# A target's rule: deterministic, never timed.
Choose = Callable[[Node], Choice]


@dataclass(frozen=True)
class Call:
    """A launching node, how the target runs it, and where its workspace is (an offset in the arena)."""

    node: Node
    choice: Choice
    workspace: int = 0


@dataclass(frozen=True)
class Plan:
    """A graph that knows where everything lies: calls correspond one to one to the graph's launching nodes."""

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


def parse_plan(text: str) -> Plan:
    """The plan a text says. Raises ParseError with the line and what was expected."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != VERSION:
        raise ParseError(f"line 1: expected {VERSION!r}, got {lines[0] if lines else ''!r}")
    start = next((i for i, line in enumerate(lines) if line.startswith("plan ")), None)
    if start is None:
        raise ParseError("the text ends too early: expected plan @name for TARGET {")
    graph = parse_graph("\n".join(["", *lines[1:start]]))
    reader = PlanReader(graph)
    for number, line in significant("\n".join([""] * start + lines[start:])):
        reader.read(Line(line, number))
    return reader.plan()


class PlanReader:
    """Reads the lines of a plan."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph, self.target, self.arena = graph, "", 0
        self.makers = {n.outputs[0].name: n for n in graph.nodes}
        self.places: list[Place] = []
        self.calls: list[Call] = []
        self.closed = False

    def read(self, line: Line) -> None:
        """Take in one line."""
        if line.accept("plan"):
            line.take("at", "a name such as @mlp.step")
            line.expect("for")
            words = list[str]()
            while not line.accept("{"):
                words.append(line.take("word", "the name of a target"))
            self.target = " ".join(words)
        elif line.accept("arena"):
            self.arena = line.integer()
        elif line.accept("place"):
            self.places.append(self.placed(line))
        elif line.accept("call"):
            self.calls.append(self.call(line))
        elif line.accept("}"):
            self.closed = True
        else:
            raise line.error("expected arena, place, call or }")
        line.end()

    def placed(self, line: Line) -> Place:
        """`%x: arena + 0 size 64 live 0 to 3`"""
        name = line.name()
        line.expect(":")
        kind = line.take("word", "arena, input, state, output or literal")
        if kind == LITERAL:
            return Place(name, f"{kind} {line.take('number', 'a number')}")
        root = kind if kind == ARENA else f"{kind} {line.name()}"
        offset, size = self.span(line)
        line.expect("live")
        first = line.integer()
        line.expect("to")
        return Place(name, root, offset, size, first, line.integer())

    def span(self, line: Line) -> tuple[int, int]:
        """`+ 0 size 64`"""
        line.expect("+")
        offset = line.integer()
        line.expect("size")
        return offset, line.integer()

    def call(self, line: Line) -> Call:
        """`%y: gemm{rows = 10} workspace arena + 0 size 64`"""
        name = line.name()
        if name not in self.makers:
            raise line.error(f"no node has %{name} as its first result")
        line.expect(":")
        stages = list[Stage]()
        while line.peek() and line.peek() != "workspace":
            stage = line.take("word", "the name of a stage")
            stages.append(Stage(stage, tuple(line.fields().items())))
        offset = size = 0
        if line.accept("workspace"):
            line.expect(ARENA)
            offset, size = self.span(line)
        return Call(self.makers[name], Choice(tuple(stages), size), offset)

    def plan(self) -> Plan:
        """What was read. Raises ParseError if calls and launching nodes do not correspond."""
        if not self.closed:
            raise ParseError("the text ends too early: expected }")
        if [c.node for c in self.calls] != list(self.graph.launching()):
            raise ParseError(f"plan @{self.graph.name}: its calls are not the launching nodes in order")
        return Plan(self.graph, self.target, tuple(self.calls), tuple(self.places), self.arena)
