"""The parser of plans: a graph, then the lines of where its values lie and how its calls run."""

from __future__ import annotations

from noeira.errors import ParseError
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import (
    ARENA,
    INPUT,
    LITERAL,
    OUTPUT,
    STATE,
    VERSION,
    Call,
    Choice,
    Place,
    Plan,
    Stage,
)
from noeira.ir.text.lexer import Line, expected_error, significant
from noeira.ir.text.parser import parse_graph


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
