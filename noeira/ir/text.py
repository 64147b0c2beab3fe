"""The text form of a graph, `.nir`: printer and parser side by side; parsing what was printed gives the same graph.

    // noeira-ir 1
    // done: trace   to do: vjp, dce, fuse
    layout @net: 64 {
      0.weight: [4, 3] @ 0
      0.bias: [3] @ 32
    }
    graph @mlp.step {
      input %x: f32[100, 4]
      state %params: f32 @net members
      initial %0.weight = uniform(-1.0, 1.0)
      group 0: LinearReLU[4, 3]
      %0.relu = fused[linear, relu](%x, %0.weight, %0.bias) : f32[100, 3]   in 0   from 0: LinearReLU[4, 3] by trace
          | %0.linear = linear(%x, %0.weight, %0.bias) : f32[100, 3]   from 0: LinearReLU[4, 3] by trace
          | …
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
from noeira.ir.graph import (
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
from noeira.ir.lexer import Line, literal, parsing
from noeira.ir.op import op
from noeira.ir.types import Layout, Member

VERSION = "// noeira-ir 1"


@dataclass(frozen=True)
class Dump:
    """A graph in the middle of a compile: the passes that were run, and those still to run, as text."""

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
    if state.members:
        named = zip(state.members, state.initial, strict=True) if state.initial else ()
        return [f"{head} members", *(f"  initial {m} = {text}" for m, text in named)]
    return [f"{head} = {state.initial[0]}" if state.initial else head]


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
ORIGIN = re.compile(r" {3}from (\S+): (.*) by (\w+)$")
GROUP = re.compile(r" {3}in (\S+)$")


def split_passes(text: str) -> tuple[str, ...]:
    """`vjp, update{lr = 0.1, …}` as its items; commas inside braces do not separate."""
    if text.strip() == "-":
        return ()
    return tuple(item.strip() for item in re.findall(r"(?:[^,{]|\{[^}]*\})+", text))


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
        self.nodes: list[Node] = []
        self.updates: list[Update] = []
        self.outputs: tuple[Value, ...] | None = None
        self.defined: dict[str, Value] = {}
        self.inner: dict[str, Value] = {}
        self.closed = False

    def read(self, text: str, number: int) -> None:
        """Take in one line."""
        if self.layout is not None:
            self.layout_line(text, number)
        elif text.lstrip().startswith("| "):
            self.body_line(text, number)
        elif (word := text.split(None, 1)[0]).startswith("%"):
            self.node_line(text, number)
        elif word == "group":
            self.group_line(text, number)
        elif word == "initial" or (word == "state" and " = " in text):
            self.initial_line(text, number)
        else:
            self.plain_line(Line(text, number))

    def plain_line(self, line: Line) -> None:
        """layout, graph, input, state, update, return, }"""
        if line.accept("layout"):
            name = line.take("at", "a name such as @net")[1:]
            line.expect(":")
            self.layout = Layout(name, line.integer(), ())
            line.expect("{")
        elif line.accept("graph"):
            self.name = line.take("at", "a name such as @mlp.step")[1:]
            line.expect("{")
        elif line.accept("input"):
            value = self.declare(line)
            self.inputs.append(Input(value, line.integer() if line.accept("<") else None))
        elif line.accept("state"):
            self.state_line(line)
        elif line.accept("update"):
            state = self.use(line)
            line.expect("=")
            self.updates.append(Update(state, self.use(line)))
        elif line.accept("return"):
            self.outputs = tuple(self.use_all(line)) if line.peek() else ()
        elif line.accept("}"):
            self.closed = True
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
        found = re.fullmatch(r"\s*(\S+): (\[[\d, ]*\]) @ (\d+)", text)
        if not found:
            raise ParseError(
                f"line {number}: expected a member such as 0.weight: [4, 3] @ 0, or }}\n    {text.strip()}"
            )
        member = Member(found[1], Line(found[2], number).shape(), int(found[3]))
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

    def state_line(self, line: Line) -> None:
        """A state without an initial value."""
        value = self.declare(line)
        members: tuple[Value, ...] = ()
        if line.accept("members"):
            if value.type.layout is None:
                raise line.error(f"{value} has no layout, so it has no members")
            parts = self.layouts[value.type.layout].members
            members = tuple(
                self.define(line, Value(m.name, replace(value.type, shape=m.shape, layout=None)))
                for m in parts
            )
        self.states.append(State(value, members))

    def initial_line(self, text: str, number: int) -> None:
        """How a state, or a member of one, begins."""
        head, _, distribution = text.partition(" = ")
        line = Line(head, number)
        if not distribution.strip():
            raise line.error("expected a distribution such as uniform(-0.1, 0.1)")
        if line.accept("state"):
            self.state_line(line)
            self.states[-1] = replace(self.states[-1], initial=(distribution.strip(),))
        else:
            line.expect("initial")
            self.initials[self.use(line).name] = distribution.strip()
        line.end()

    def group_line(self, text: str, number: int) -> None:
        """The path of a fused module, and its type."""
        found = re.fullmatch(r"\s*group (\S+): (.+)", text)
        if not found:
            raise Line(text, number).error("expected group PATH: TYPE")
        self.groups.append(Group(found[1], found[2]))

    def node(self, text: str, number: int) -> tuple[Line, Node, bool]:
        """A node whose operands are looked up in `defined`; whether it is a fused one."""
        origin = ORIGIN.search(text)
        if not origin:
            raise ParseError(
                f"line {number}: expected '   from PATH: TYPE by PASS' at the end\n    {text.strip()}"
            )
        head = text[: origin.start()]
        group = GROUP.search(head)
        line = Line(head[: group.start()] if group else head, number)
        names = line.names()
        line.expect("=")
        name = line.take("word", "the name of an op")
        if fused := name == "fused":
            line.expect("[")
            while not line.accept("]"):
                line.position += 1
                if line.position > len(line.tokens):
                    raise line.error("expected ]")
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
            raise line.error(f"{len(names)} names, but {len(types)} types")
        rule = parsing(line, op, name)
        outputs = tuple(Value(n, t) for n, t in zip(names, types, strict=True))
        attrs = parsing(line, rule.Attrs, **fields)
        where = Origin(origin[1], origin[2], origin[3])
        return line, Node(rule, tuple(inputs), outputs, attrs, where, group[1] if group else ""), fused

    def node_line(self, text: str, number: int) -> None:
        """A node of the graph."""
        line, node, _ = self.node(text, number)
        for value in node.outputs:
            self.define(line, value)
        self.nodes.append(node)
        self.inner = {v.name: v for v in node.inputs}

    def body_line(self, text: str, number: int) -> None:
        """A plain node inside the fused one above; its values are the body's own."""
        if not self.nodes or self.nodes[-1].op.name != "fused":
            raise ParseError(f"line {number}: a body line, but no fused node above\n    {text.strip()}")
        outside, self.defined = self.defined, self.inner
        try:
            stripped = text.replace("| ", "", 1)
            _, part, _ = self.node(stripped, number)
        finally:
            self.defined = outside
        self.inner |= {v.name: v for v in part.outputs}
        fused = self.nodes[-1]
        part = replace(part, group=fused.group)
        self.nodes[-1] = replace(fused, body=(*fused.body, part))

    def graph(self) -> ComputeGraph:
        """What was read."""
        if self.name is None or not self.closed or self.outputs is None:
            missing = "graph @name {" if self.name is None else "return and }"
            raise ParseError(f"the text ends too early: expected {missing}")
        states = tuple(self.with_initials(s) for s in self.states)
        return ComputeGraph(
            self.name,
            tuple(self.layouts.values()),
            tuple(self.inputs),
            states,
            tuple(self.groups),
            tuple(self.nodes),
            tuple(self.updates),
            self.outputs,
        )

    def with_initials(self, state: State) -> State:
        """The state with what `initial` lines said of its members."""
        known = [self.initials[m.name] for m in state.members if m.name in self.initials]
        if known and len(known) != len(state.members):
            raise ParseError(f"{state.value}: expected an `initial` line for every member, or for none")
        return replace(state, initial=tuple(known)) if known else state


def significant(text: str) -> list[tuple[int, str]]:
    """The lines that say something, numbered from 1, without comments."""
    numbered = enumerate(text.splitlines(), 1)
    bare = [(n, re.sub(r"\s*#.*$", "", line) if "#" in line else line) for n, line in numbered]
    return [(n, line.rstrip()) for n, line in bare if line.strip()]


def parse_graph(text: str) -> ComputeGraph:
    """The graph a text says, not verified. Raises ParseError with the line and what was expected."""
    reader = GraphReader()
    for number, line in significant(text):
        if reader.closed:
            raise ParseError(f"line {number}: expected nothing after the graph's }}\n    {line}")
        reader.read(line, number)
    return reader.graph()


def parse_dump(text: str) -> Dump:
    """A `.nir` file, not verified. Raises ParseError with the line and what was expected."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != VERSION:
        raise ParseError(f"line 1: expected {VERSION!r}, got {lines[0] if lines else ''!r}")
    progress = PROGRESS.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    if not progress:
        raise ParseError("line 2: expected '// done: PASSES   to do: PASSES'")
    graph = parse_graph("\n".join(["", "", *lines[2:]]))
    return Dump(graph, split_passes(progress[1]), split_passes(progress[2]))


def parse_fields(text: str) -> tuple[str, dict[str, Any]]:
    """`name{field = literal, …}` as its name and fields. Raises ParseError."""
    line = Line(text, 2)
    name, fields = line.take("word", "the name of a pass"), line.fields()
    line.end()
    return name, fields
