"""From a node's parts to its kernel's element-wise code: what an element loads, makes, stores."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import cast

from noeira.codegen.expressions import Lowering
from noeira.codegen.view import Constant, Elementwise, Load, Store
from noeira.errors import VerifyError
from noeira.ir.graph import Node, Value
from noeira.ir.ops import elementwise
from noeira.ir.scalar import Expr
from noeira.ir.types import TensorType


@dataclass(frozen=True)
class Body:
    """A launching node's parts by role: element-wise ops, perhaps an anchor, element-wise ops."""

    node: Node
    head: tuple[Node, ...]
    anchor: Node | None
    tail: tuple[Node, ...]

    @property
    def template(self) -> str:
        """The stem of the kernel's template: the anchor's, or `map`."""
        return self.anchor.op.template if self.anchor else "map"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the element-wise code runs over."""
        if self.anchor is None:
            return self.head[0].outputs[0].type.shape
        return (self.anchor.inputs if self.head else self.anchor.outputs)[0].type.shape


def body_of(node: Node) -> Body:
    """The parts of a node. Raises VerifyError if more than one of them is not element-wise."""
    parts = node.parts
    anchors = [i for i, part in enumerate(parts) if part.op.kind != "map"]
    if len(anchors) > 1:
        names = " and ".join(parts[i].op.name for i in anchors)
        raise VerifyError(f"{node.outputs[0]}: a kernel can have one anchor, this one has {names}")
    if not anchors:
        return Body(node, parts, None, ())
    (at,) = anchors
    return Body(node, parts[:at], parts[at], parts[at + 1 :])


def rows_and_columns(type: TensorType) -> tuple[int, int]:
    """A tensor as a matrix: the last axis, and all others folded."""
    columns = type.shape[-1] if type.shape else 1
    return math.prod(type.shape[:-1]), columns


def operand_id(node: Node, part: Node, position: int) -> str:
    """The kernel's argument behind a part's operand; ValueError if the body itself makes it."""
    if part is node:
        return f"a{position}"
    return f"a{[v.name for v in node.inputs].index(part.inputs[position].name)}"


@dataclass
class Lowered:
    """Collects the element-wise code of `node` over `shape`.

    `names` gives the C names of the values in registers: what was computed so far, and what an
    anchor hands in. An element loaded from `aN` is called `xN`, a result `rN`, a subexpression that
    is used twice `tN`, a constant `cN`.
    """

    node: Node
    dtype: str
    shape: tuple[int, ...]
    names: dict[str, str] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lowering = Lowering(self.dtype, {}, [])
        self.results = len(self.names)

    def operand(self, part: Node, position: int) -> str:
        """The C name of a part's operand, which is loaded at its first use."""
        value = part.inputs[position]
        if value.name in self.names:
            return self.names[value.name]
        source = operand_id(self.node, part, position)
        if source not in self.loads:
            access = access_of(value, self.shape)
            self.loads[source] = Load(f"x{source[1:]}", source, access, value.type.dtype)
        return self.loads[source].name

    def assign(self, value: Value, expression: Expr, operands: dict[str, str]) -> None:
        """Compute a value from operands given by their C names."""
        name = f"r{self.results}"
        self.results += 1
        self.lowering.assign(name, expression, operands)
        self.names[value.name] = name

    def compute(self, part: Node) -> None:
        """Compute the result of an element-wise part."""
        op = cast(elementwise.Elementwise, part.op)
        operands = {name: self.operand(part, i) for i, name in enumerate(op.operands)}
        self.assign(part.outputs[0], op.expression(part.attrs), operands)

    def code(self) -> Elementwise:
        """The code, with stores of those outputs of the node that have a C name."""
        stores = [
            Store(f"y{i}", self.names[value.name])
            for i, value in enumerate(self.node.outputs)
            if value.name in self.names
        ]
        constants = (Constant(name, text) for text, name in self.lowering.constants.items())
        loads = (self.loads[key] for key in sorted(self.loads, key=lambda source: int(source[1:])))
        return Elementwise(
            self.dtype, tuple(constants), tuple(loads), tuple(self.lowering.lines), tuple(stores)
        )


def access_of(value: Value, shape: tuple[int, ...]) -> str:
    """How `shape` reads an operand: at the same index, at that in the last axes, or one element."""
    if value.type.size == math.prod(shape):
        return "full"
    return "scalar" if value.type.size == 1 else "row"


def needed(parts: tuple[Node, ...], wanted: set[str]) -> tuple[Node, ...]:
    """The parts whose results are wanted, or lead to what is."""
    found, wanted = list[Node](), set(wanted)
    for part in reversed(parts):
        if any(v.name in wanted for v in part.outputs):
            found.insert(0, part)
            wanted |= {v.name for v in part.inputs}
    return tuple(found)
