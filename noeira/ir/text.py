"""The text form of a graph, `.nir`: printer and parser side by side; parsing what was printed gives
the same graph.

    // noeira-ir 1
    // done: trace   to do: vjp, dce, fuse
    layout @net: 64 {
      0.weight: [4, 3] @ 0 decay
      0.bias: [3] @ 32
    }
    graph @mlp.step {
      input %x: f32[100, 4]
      state %params: f32 @net members
      initial %0.weight = uniform(-1.0, 1.0)
      group 0: LinearReLU[4, 3]
      %0.relu = fused[linear, relu](…) : f32[100, 3]   in 0   from 0: LinearReLU[4, 3] by trace
          | %0.linear = linear(%x, …) : f32[100, 3]   from 0: Linear[4, 3] by trace
          | %0.relu = relu(%0.linear) : f32[100, 3]   from 0: ReLU by trace
      update %step = %step.next
      return %loss
    }

Comments begin with `#`. A node line may name its group (`in 0`) and says where it comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from noeira.errors import ParseError
from noeira.ir.attributes import filled
from noeira.ir.graph import (
    TRACE,
    ComputeGraph,
    Group,
    Input,
    Node,
    Origin,
    State,
    Update,
    Value,
    attr_items,
)
from noeira.ir.lexer import QUOTED, Line, expected_error, literal, parsing, significant
from noeira.ir.op import op
from noeira.ir.random import Distribution
from noeira.ir.types import Layout, Member

VERSION = "// noeira-ir 1"


@dataclass(frozen=True)
class Dump:
    """A graph in the middle of a compile: the passes that were run, and those still to run, as
    text.
    """

    graph: ComputeGraph
    done: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()

    def __str__(self) -> str:
        progress = f"// done: {', '.join(self.done) or '-'}   to do: {', '.join(self.todo) or '-'}"
        return f"{VERSION}\n{progress}\n{graph_text(self.graph)}"


def node_head(node: Node) -> str:
    """`%y = relu(%x) : f32[3]`: a node without its group and origin."""
    names = ", ".join(part.op.name for part in node.body)
    name = f"fused[{names}]" if node.body else node.op.name
    attrs = ", ".join(f"{key} = {literal(value)}" for key, value in attr_items(node.attrs))
    return (
        f"{', '.join(map(str, node.outputs))} = {name}({', '.join(map(str, node.inputs))})"
        + (f" {{{attrs}}}" if attrs else "")
        + f" : {', '.join(str(v.type) for v in node.outputs)}"
    )


def node_lines(node: Node, indent: str = "  ") -> list[str]:
    """A node, and under a fused one the plain nodes it is made of."""
    group = f"   in {node.group}" if node.group and not indent.endswith("| ") else ""
    lines = [f"{indent}{node_head(node)}{group}   {node.origin}"]
    for part in node.body:
        lines += node_lines(part, indent + "    | ")
    return lines


def state_lines(state: State) -> list[str]:
    """A state, and how its elements begin."""
    head = f"  state {state.value}: {state.value.type}"
    by = "" if state.by == TRACE else f"   by {state.by}"
    if state.members:
        named = zip(state.members, state.initial, strict=True) if state.initial else ()
        return [f"{head} members{by}", *(f"  initial {m} = {text}" for m, text in named)]
    return [(f"{head} = {state.initial[0]}" if state.initial else head) + by]


def graph_text(graph: ComputeGraph) -> str:
    """Layouts and graph."""
    lines = [str(layout) for layout in graph.layouts]
    lines.append(f"graph @{graph.name} {{")
    for given in graph.inputs:
        limit = "" if given.limit is None else f" < {given.limit}"
        lines.append(f"  input {given.value}: {given.value.type}{limit}")
    for state in graph.states:
        lines += state_lines(state)
    lines += [f"  group {group.path}: {group.type}" for group in graph.groups]
    for node in graph.nodes:
        lines += node_lines(node)
    lines += [f"  update {u.state} = {u.new}" for u in graph.updates]
    lines.append(f"  return {', '.join(map(str, graph.outputs))}".rstrip())
    return "\n".join([*lines, "}", ""])


PROGRESS = re.compile(r"// done: (.*?)   to do: (.*)")
PASSES = re.compile(rf'(?:[^,{{"]|{QUOTED}|\{{(?:[^}}"]|{QUOTED})*\}})+')
ORIGIN = re.compile(r" {3}from (\S+): (.*) by (\w+)$")
GROUP = re.compile(r" {3}in (\S+)$")
BY = re.compile(r" {3}by (\w+)$")


def split_passes(text: str) -> tuple[str, ...]:
    """`vjp, update{lr = 0.1, …}` as its items; commas inside braces do not separate."""
    if text.strip() == "-":
        return ()
    return tuple(item.strip() for item in PASSES.findall(text))


class GraphReader:
    """Reads the lines of layouts and of one graph.

    inner: what the body of the last fused node may read. announced: its line, and the ops that line
    names.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.layouts: dict[str, Layout] = {}
        self.layout: Layout | None = None
        self.inputs: list[Input] = []
        self.states: list[State] = []
        self.initials: dict[str, str] = {}
        self.groups: list[Group] = []
        self.nodes: list[Node] = []
        self.updates: list[Update] = []
        self.outputs: tuple[Value, ...] | None = None
        self.defined: dict[str, Value] = {}
        self.inner: dict[str, Value] = {}
        self.body: list[Node] = []
        self.announced: tuple[Line, list[str]] | None = None
        self.closed = False

    def read(self, text: str, number: int) -> None:
        """Take in one line."""
        if self.layout is not None:
            self.layout_line(text, number)
            return
        if text.lstrip().startswith("| "):
            self.body_line(text, number)
            return
        self.close_body()
        word = text.split(None, 1)[0]
        if expected := self.out_of_place(word):
            raise expected_error(text, number, expected)
        if word.startswith("%"):
            self.node_line(text, number)
        elif word == "group":
            self.group_line(text, number)
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
            state = self.use(line)
            line.expect("=")
            self.updates.append(Update(state, self.use(line)))
        elif line.accept("return"):
            self.outputs = tuple(self.use_all(line)) if line.peek() else ()
        elif line.accept("}"):
            self.close(line)
        else:
            expected = "layout, graph, input, state, group, a node, update, return or }"
            raise line.error(f"expected {expected}")
        line.end()

    def layout_line(self, text: str, number: int) -> None:
        """A member, or the end of the layout."""
        layout = self.layout
        assert layout is not None
        if text.strip() == "}":
            self.layouts[layout.name], self.layout = layout, None
            return
        found = re.fullmatch(r"\s*(\S+): (\[[\d, ]*\]) @ (\d+)( decay)?\s*", text)
        if not found:
            raise expected_error(text, number, "a member such as 0.weight: [4, 3] @ 0, or }")
        shape, offset = Line(found[2], number).shape(), Line(found[3], number).integer()
        member = Member(found[1], shape, offset, found[4] is not None)
        self.layout = replace(layout, members=(*layout.members, member))

    def declare(self, line: Line) -> Value:
        """`%x: f32[3]`, a new name."""
        name = line.name()
        line.expect(":")
        return self.define(line, Value(name, line.type(self.layouts)))

    def define(self, line: Line, value: Value) -> Value:
        """Enter a new name."""
        if value.name in self.defined:
            raise line.error(f"{value} is defined twice")
        self.defined[value.name] = value
        return value

    def use(self, line: Line) -> Value:
        """A name defined above."""
        name = line.name()
        if name not in self.defined:
            line.position -= 1
            raise line.error(f"%{name} is not defined above")
        return self.defined[name]

    def use_all(self, line: Line) -> list[Value]:
        """Names with commas between them."""
        found = [self.use(line)]
        while line.accept(","):
            found.append(self.use(line))
        return found

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
                self.define(line, Value(m.name, replace(value.type, shape=m.shape, layout=None)))
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
        name = self.use(line).name
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

    def node(self, text: str, number: int) -> tuple[Line, Node, list[str]]:
        """A node whose operands are looked up in `defined`; of a fused one, the ops it names."""
        origin = ORIGIN.search(text)
        if not origin:
            raise expected_error(text, number, "'   from PATH: TYPE by PASS' at the end")
        head = text[: origin.start()]
        group = GROUP.search(head)
        line = Line(head[: group.start()] if group else head, number)
        names = line.names()
        line.expect("=")
        rule = parsing(line, op, line.take("word", "the name of an op"))
        announced = line.words() if rule.name == "fused" else []
        line.expect("(")
        inputs = [] if line.peek() == ")" else self.use_all(line)
        line.expect(")")
        fields = line.fields()
        line.expect(":")
        types = [line.type(self.layouts)]
        while line.accept(","):
            types.append(line.type(self.layouts))
        line.end()
        if len(types) != len(names):
            raise line.error(f"expected {len(names)} types, one for each name, got {len(types)}")
        outputs = tuple(Value(n, t) for n, t in zip(names, types, strict=True))
        attrs = parsing(line, filled, rule.name, rule.Attrs, fields)
        where = Origin(origin[1], origin[2], origin[3])
        stamp = group[1] if group else ""
        return line, Node(rule, tuple(inputs), outputs, attrs, where, stamp), announced

    def node_line(self, text: str, number: int) -> None:
        """A node of the graph."""
        line, node, announced = self.node(text, number)
        for value in node.outputs:
            self.define(line, value)
        self.nodes.append(node)
        if announced:
            self.inner = {v.name: v for v in node.inputs}
            self.announced = line, announced

    def body_line(self, text: str, number: int) -> None:
        """A plain node inside the fused one above; its values are the body's own."""
        if not self.announced:
            raise expected_error(text, number, "a fused node above this line of a body")
        outside, self.defined = self.defined, self.inner
        try:
            line, part, announced = self.node(text.replace("| ", "  ", 1), number)
            for value in part.outputs:
                self.define(line, value)
        finally:
            self.defined = outside
        if announced:
            raise line.error("expected a plain node: a kernel has no kernels inside")
        self.body.append(replace(part, group=self.nodes[-1].group))

    def close_body(self) -> None:
        """The lines of a body are over; they must be those that the fused node names."""
        if self.announced:
            line, names = self.announced
            found = [part.op.name for part in self.body]
            if found != names:
                line.position = 0
                raise line.error(
                    f"expected a body of {', '.join(names)} below, got {', '.join(found) or 'none'}"
                )
            self.nodes[-1] = replace(self.nodes[-1], body=tuple(self.body))
            self.announced, self.body = None, []

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
            tuple(self.nodes),
            tuple(self.updates),
            self.outputs,
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


def parse_dump(text: str) -> Dump:
    """A `.nir` file, not verified. Raises ParseError with the line and what was expected."""
    version, progress, rest = (*text.split("\n", 2), "", "")[:3]
    if version.strip() != VERSION:
        raise expected_error(version, 1, VERSION)
    found = PROGRESS.fullmatch(progress.strip())
    if not found:
        raise expected_error(progress, 2, "// done: PASSES   to do: PASSES")
    return Dump(parse_graph(rest, first=3), split_passes(found[1]), split_passes(found[2]))


def parse_fields(text: str) -> tuple[str, dict[str, Any]]:
    """`name{field = literal, …}` as its name and fields. Raises ParseError."""
    line = Line(text, 2)
    name, fields = line.take("word", "the name of a pass"), line.fields()
    line.end()
    return name, fields
