"""The parser of graphs: layouts, inputs, states, nodes and updates, a line at a time."""

from __future__ import annotations

import re
from dataclasses import replace

from noeira.errors import ParseError
from noeira.ir.graph import TRACE, ComputeGraph, Group, Input, Region, State, Update
from noeira.ir.layouts import Layout, Member
from noeira.ir.orders import ORDERS
from noeira.ir.random import Distribution
from noeira.ir.text.lexer import Line, expected_error, parsing, significant
from noeira.ir.text.nodes import NodeReader
from noeira.ir.value import Value

BY = re.compile(r" {3}by (\w+)$")


class GraphReader:
    """Reads the lines of layouts and of one graph."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.layouts: dict[str, Layout] = {}
        self.layout: Layout | None = None
        self.inputs: list[Input] = []
        self.states: list[State] = []
        self.initials: dict[str, str] = {}
        self.groups: list[Group] = []
        self.regions: list[Region] = []
        self.nodes = NodeReader(self.layouts)
        self.updates: list[Update] = []
        self.outputs: tuple[Value, ...] | None = None
        self.closed = False

    def read(self, text: str, number: int) -> None:
        """Take in one line."""
        if self.layout is not None:
            self.layout_line(text, number)
            return
        if text.lstrip().startswith("| "):
            self.nodes.body_line(text, number)
            return
        self.nodes.close_body()
        word = text.split(None, 1)[0]
        if expected := self.out_of_place(word):
            raise expected_error(text, number, expected)
        if word.startswith("%"):
            self.nodes.node_line(text, number)
        elif word == "group":
            self.group_line(text, number)
        elif word == "region":
            self.region_line(text, number)
        elif word == "state":
            by = BY.search(text)
            self.state_line(text[: by.start()] if by else text, number)
            self.states[-1] = replace(self.states[-1], by=by[1] if by else TRACE)
        elif word == "initial":
            self.initial_line(text, number)
        else:
            self.plain_line(Line(text, number))

    def out_of_place(self, word: str) -> str:
        """What must stand where a line begins with this word; empty if it may stand there."""
        before = self.name is None
        if before != (word in ("layout", "graph")):
            return (
                "layout @name: SIZE { or graph @name {"
                if before
                else "a line inside the graph, or }"
            )
        return "} after return" if self.outputs is not None and word != "}" else ""

    def plain_line(self, line: Line) -> None:
        """layout, graph, input, update, return, }"""
        if line.accept("layout"):
            name = line.take("at", "a name such as @net")[1:]
            if name in self.layouts:
                raise line.error(f"layout @{name} is defined twice")
            line.expect(":")
            self.layout = Layout(name, line.integer(), ())
            line.expect("{")
        elif line.accept("graph"):
            self.name = line.take("at", "a name such as @mlp.step")[1:]
            line.expect("{")
        elif line.accept("input"):
            value = self.declare(line)
            self.inputs.append(Input(value, line.integer() if line.accept("<") else None))
        elif line.accept("update"):
            state = self.nodes.use(line)
            line.expect("=")
            self.updates.append(Update(state, self.nodes.use(line)))
        elif line.accept("return"):
            self.outputs = tuple(self.nodes.use_all(line)) if line.peek() else ()
        elif line.accept("}"):
            self.close(line)
        else:
            expected = "layout, graph, input, state, group, region, a node, update, return or }"
            raise line.error(f"expected {expected}")
        line.end()

    def layout_line(self, text: str, number: int) -> None:
        """A member, or the end of the layout."""
        layout = self.layout
        assert layout is not None
        if text.strip() == "}":
            self.layouts[layout.name], self.layout = layout, None
            return
        found = re.fullmatch(r"\s*(\S+): (\[[\d, ]*\])( \w+)? @ (\d+)( decay)?\s*", text)
        if not found:
            raise expected_error(text, number, "a member such as 0.weight: [4, 3] @ 0, or }")
        shape, offset = Line(found[2], number).shape(), Line(found[4], number).integer()
        order = (found[3] or "").strip()
        if order and order not in ORDERS:
            raise expected_error(text, number, f"one of the orders {', '.join(ORDERS)}")
        member = Member(found[1], shape, offset, found[5] is not None, order)
        self.layout = replace(layout, members=(*layout.members, member))

    def declare(self, line: Line) -> Value:
        """`%x: f32[3]`, a new name."""
        name = line.name()
        line.expect(":")
        return self.nodes.define(line, Value(name, line.type(self.layouts)))

    def state_line(self, text: str, number: int) -> None:
        """A state, and how its elements begin, if that is one text."""
        head, _, initial = text.partition(" = ")
        line = Line(head, number)
        line.expect("state")
        value = self.declare(line)
        members: tuple[Value, ...] = ()
        if line.accept("members"):
            if value.type.layout is None:
                raise line.error(f"{value} has no layout, so it has no members")
            if initial:
                raise line.error("expected an initial line for each member below")
            parts = self.layouts[value.type.layout].members
            members = tuple(
                self.nodes.define(
                    line,
                    Value(m.name, replace(value.type, shape=m.shape, layout=None, order=m.order)),
                )
                for m in parts
            )
        line.end()
        beginning = (self.distribution(initial, number),) if initial else ()
        self.states.append(State(value, members, beginning))

    def initial_line(self, text: str, number: int) -> None:
        """How a member of the last state begins."""
        head, _, initial = text.partition(" = ")
        line = Line(head, number)
        line.expect("initial")
        self.member_line(line, self.distribution(initial, number))
        line.end()

    def distribution(self, text: str, number: int) -> str:
        """The text of a distribution, which must be one."""
        initial = text.strip()
        parsing(Line(initial, number), Distribution.parse, initial)
        return initial

    def member_line(self, line: Line, initial: str) -> None:
        """`%0.weight`, a member of the last state that has none of its own yet."""
        name = self.nodes.use(line).name
        members = [m.name for m in self.states[-1].members] if self.states else []
        line.position -= 1
        if name not in members:
            raise line.error("expected a member of the state above")
        if name in self.initials:
            raise line.error(f"%{name} has an initial value already")
        line.position += 1
        self.initials[name] = initial

    def group_line(self, text: str, number: int) -> None:
        """The path of a fused module, and its type."""
        found = re.fullmatch(r"\s*group (\S+): (.+)", text)
        if not found:
            raise expected_error(text, number, "group PATH: TYPE")
        self.groups.append(Group(found[1], found[2]))

    def region_line(self, text: str, number: int) -> None:
        """The path of a region, that of the one around it, and its type."""
        found = re.fullmatch(r"\s*region (\S+)(?: in (\S+))?: (.+)", text)
        if not found:
            raise expected_error(text, number, "region PATH: TYPE, or region PATH in PATH: TYPE")
        self.regions.append(Region(found[1], found[3], found[2] or ""))

    def close(self, line: Line) -> None:
        """The end of the graph."""
        if self.outputs is None:
            line.position = 0
            raise line.error("expected return before }")
        self.states = [self.with_initials(line, state) for state in self.states]
        self.closed = True

    def graph(self, last: int) -> ComputeGraph:
        """What was read; `last` is the number of the last line."""
        if self.name is None or self.outputs is None or not self.closed:
            missing = "graph @name {" if self.name is None else "return and }"
            raise ParseError(f"line {last}: the text ends too early: expected {missing}")
        return ComputeGraph(
            self.name,
            tuple(self.layouts.values()),
            tuple(self.inputs),
            tuple(self.states),
            tuple(self.groups),
            tuple(self.nodes.found),
            tuple(self.updates),
            self.outputs,
            tuple(self.regions),
        )

    def with_initials(self, line: Line, state: State) -> State:
        """The state with what `initial` lines said of its members."""
        known = [self.initials[m.name] for m in state.members if m.name in self.initials]
        if known and len(known) != len(state.members):
            raise line.error(
                f"{state.value}: expected an initial line for every member, or for none"
            )
        return replace(state, initial=tuple(known)) if known else state


def parse_graph(text: str, first: int = 1) -> ComputeGraph:
    """The graph a text says, not verified. Raises ParseError with the line and what was expected.

    first: the number of its first line.
    """
    reader = GraphReader()
    for number, line in significant(text, first):
        if reader.closed:
            raise expected_error(line, number, "nothing after the graph's }")
        reader.read(line, number)
    return reader.graph(first + text.count("\n"))
