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

from noeira.errors import ParseError
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.text.lexer import Line, expected_error, literal, significant
from noeira.ir.text.parser import parse_graph
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


def parse_plans(text: str) -> list[Plan]:
    """The plans of a unit, from their text one after the other. Raises ParseError."""
    return [parse_plan(VERSION + part) for part in text.split(VERSION)[1:]]


def parse_plan(text: str) -> Plan:
    """The plan a text says, its graph not verified. Raises ParseError with the line and what was
    expected.
    """
    version, _, rest = text.partition("\n")
    if version.strip() != VERSION:
        raise expected_error(version, 1, VERSION)
    lines = rest.split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith("plan ")), len(lines))
    reader = PlanReader(parse_graph("\n".join(lines[:start]), first=2))
    for number, line in significant("\n".join(lines[start:]), first=start + 2):
        reader.read(Line(line, number))
    return reader.plan(len(lines) + 1)


class PlanReader:
    """Reads the lines of a plan."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph, self.target, self.arena = graph, "", -1
        self.makers = {n.outputs[0].name: n for n in graph.nodes}
        self.values = {v.name: v for v in graph.values()}
        self.owners = {
            INPUT: {i.value.name for i in graph.inputs},
            STATE: {s.value.name for s in graph.states},
            OUTPUT: {v.name for v in graph.outputs},
        }
        self.places: dict[str, Place] = {}
        self.calls: list[Call] = []
        self.closed = False

    def read(self, line: Line) -> None:
        """Take in one line."""
        if self.closed:
            raise line.error("expected nothing after the plan's }")
        if line.accept("plan"):
            self.head(line)
        elif not self.target:
            raise line.error("expected plan @name for TARGET {")
        elif line.accept("arena"):
            self.arena = line.integer()
        elif self.arena < 0:
            raise line.error("expected arena SIZE")
        elif line.accept("place"):
            place = self.placed(line)
            self.places[place.name] = place
        elif line.accept("call"):
            self.calls.append(self.call(line))
        elif line.accept("}"):
            self.closed = True
        else:
            raise line.error("expected arena, place, call or }")
        line.end()

    def head(self, line: Line) -> None:
        """`@mlp.step for c avx512 {`"""
        if line.take("at", "a name such as @mlp.step") != f"@{self.graph.name}":
            raise line.error(f"expected the plan of @{self.graph.name}")
        line.expect("for")
        words = [line.take("word", "the name of a target")]
        while not line.accept("{"):
            words.append(line.take("word", "the name of a target, or {"))
        self.target = " ".join(words)

    def placed(self, line: Line) -> Place:
        """`%x: arena + 0 size 64 live 0 to 3`"""
        name = line.name()
        if name not in self.values:
            raise line.error(f"the graph has no value %{name}")
        if name in self.places:
            raise line.error(f"%{name} has a place already")
        line.expect(":")
        kind = line.take("word", "arena, input, state, output or literal")
        if kind == LITERAL:
            return Place(name, f"{kind} {line.take('number', 'a number')}")
        if kind != ARENA and kind not in self.owners:
            raise line.error(f"expected arena, input, state, output or literal, got {kind!r}")
        root = kind if kind == ARENA else f"{kind} {self.owner(line, kind)}"
        offset, size = self.span(line)
        if size != self.values[name].type.nbytes:
            raise line.error(f"%{name} has {self.values[name].type.nbytes} bytes")
        if kind == ARENA:
            self.check_inside(line, offset, size)
        line.expect("live")
        first = line.integer()
        line.expect("to")
        return Place(name, root, offset, size, first, line.integer())

    def owner(self, line: Line, kind: str) -> str:
        """`%loss`, an input, state or output of the graph."""
        name = line.name()
        if name not in self.owners[kind]:
            raise line.error(f"the graph has no {kind} %{name}")
        return name

    def check_inside(self, line: Line, offset: int, size: int) -> None:
        """Raises ParseError if bytes are not inside the arena."""
        if offset < 0 or size < 0 or offset + size > self.arena:
            raise line.error(f"expected a place inside the arena of {self.arena} bytes")

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
        while line.more() and line.peek() != "workspace":
            stage = line.take("word", "the name of a stage")
            stages.append(Stage(stage, tuple(line.fields().items())))
        offset = size = 0
        if line.accept("workspace"):
            line.expect(ARENA)
            offset, size = self.span(line)
            self.check_inside(line, offset, size)
        return Call(self.makers[name], Choice(tuple(stages), size), offset)

    def plan(self, last: int) -> Plan:
        """What was read; `last` is the number of the last line.

        Raises ParseError if calls and launching nodes do not correspond, or an operand has no
        place.
        """
        if not self.closed:
            missing = "}" if self.target else "plan @name for TARGET {"
            raise ParseError(f"line {last}: the text ends too early: expected {missing}")
        nodes = self.graph.launching()
        if [id(c.node) for c in self.calls] != [id(n) for n in nodes]:
            raise ParseError(
                f"line {last}: expected a call for each launching node, in their order"
            )
        for node in nodes:
            for value in (*node.inputs, *node.outputs):
                if value.name not in self.places:
                    raise ParseError(f"line {last}: expected a place for {value}")
        calls, places = tuple(self.calls), tuple(self.places.values())
        return Plan(self.graph, self.target, calls, places, self.arena)
