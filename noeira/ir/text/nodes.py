"""The parser of nodes: the lines that compute something, and those of a fused node's body."""

from __future__ import annotations

import re
from dataclasses import replace

from noeira.ir.attributes import filled
from noeira.ir.graph import Node, Origin
from noeira.ir.layouts import Layout
from noeira.ir.op import op
from noeira.ir.text.lexer import Line, expected_error, parsing
from noeira.ir.value import Value

ORIGIN = re.compile(r" {3}from (\S+): (.*) by (\w+)$")
GROUP = re.compile(r" {3}in (\S+)$")
REGION = re.compile(r" {3}region (\S+)$")


def cut_off(stamp: re.Pattern[str], text: str) -> tuple[str, str]:
    """A text without the stamp at its end, and what that says; "" if there is none."""
    found = stamp.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


class NodeReader:
    """Reads the nodes of a graph, and knows the values that its lines may name.

    found: the nodes so far. defined: the values. inner: what the body of the last fused node may
    read. announced: its line, and the ops that line names.
    """

    def __init__(self, layouts: dict[str, Layout]) -> None:
        self.layouts = layouts
        self.found: list[Node] = []
        self.defined: dict[str, Value] = {}
        self.inner: dict[str, Value] = {}
        self.body: list[Node] = []
        self.announced: tuple[Line, list[str]] | None = None

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

    def node(self, text: str, number: int) -> tuple[Line, Node, list[str]]:
        """A node whose operands are looked up in `defined`; of a fused one, the ops it names."""
        origin = ORIGIN.search(text)
        if not origin:
            raise expected_error(text, number, "'   from PATH: TYPE by PASS' at the end")
        head, region = cut_off(REGION, text[: origin.start()])
        head, stamp = cut_off(GROUP, head)
        line = Line(head, number)
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
        node = Node(rule, tuple(inputs), outputs, attrs, where, stamp, region=region)
        return line, node, announced

    def node_line(self, text: str, number: int) -> None:
        """A node of the graph."""
        line, node, announced = self.node(text, number)
        for value in node.outputs:
            self.define(line, value)
        self.found.append(node)
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
        whole = self.found[-1]
        self.body.append(replace(part, group=whole.group, region=whole.region))

    def close_body(self) -> None:
        """The lines of a body are over; they must be those that the fused node names."""
        if self.announced:
            line, names = self.announced
            got = [part.op.name for part in self.body]
            if got != names:
                line.position = 0
                raise line.error(
                    f"expected a body of {', '.join(names)} below, got {', '.join(got) or 'none'}"
                )
            self.found[-1] = replace(self.found[-1], body=tuple(self.body))
            self.announced, self.body = None, []
