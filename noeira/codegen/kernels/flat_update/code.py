"""What both languages make of a formula over flat states: an element's code, and its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from noeira.codegen.elements import literal
from noeira.codegen.lower import Lowered
from noeira.codegen.numbers import is_light, number_text
from noeira.codegen.rows import Rows
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.formula import formula
from noeira.ir.graph import Node
from noeira.ir.ops.flat_update import FlatUpdate, Variation
from noeira.ir.ranges import distinct, pieces
from noeira.ir.scalar import COMPARISONS, Expr, substitute, var, variables

RowsLike = TypeVar("RowsLike", bound=Rows)


@dataclass(frozen=True)
class Number:
    """A number of a formula: its name in the element's code, C text for it as a double, whether it
    is little work.
    """

    name: str
    text: str
    light: bool


@dataclass(frozen=True)
class FlatUpdateView(Generic[RowsLike]):
    """What templates see.

    grid: the elements. results: their names. scalars: the operands of rank 0 that numbers are made
    of. numbers: those that all elements have in common; own: those that depend on the kind of an
    element. values: by attribute, C text for what each kind has of it. by_range: the operands that
    have a number for each kind, which ranges then are. parts: by name, C text for doubles that the
    kinds' own numbers have in common. kinds: how many there are. stops, kind_of: where pieces of
    equal elements end, and of which kind they are, -1 for those that stay as they are.
    """

    grid: RowsLike
    results: tuple[str, ...]
    scalars: tuple[str, ...]
    numbers: tuple[Number, ...]
    own: tuple[Number, ...]
    values: Mapping[str, tuple[str, ...]]
    by_range: tuple[str, ...]
    parts: Mapping[str, str]
    kinds: int
    stops: tuple[int, ...]
    kind_of: tuple[int, ...]

    @property
    def heavy(self) -> tuple[Number, ...]:
        """The common numbers that not every thread should reckon."""
        return tuple(one for one in self.numbers if not one.light)

    @property
    def light(self) -> tuple[Number, ...]:
        """The other common numbers."""
        return tuple(one for one in self.numbers if one.light)

    @property
    def room(self) -> int:
        """Elements of room for what a block reckons once: heavy numbers, then each kind's own."""
        return len(self.heavy) + self.kinds * len(self.own)

    def own_place(self, kind: int, number: int) -> int:
        """Where in this room a kind has one of its own numbers."""
        return len(self.heavy) + kind * len(self.own) + number

    @property
    def last_piece(self) -> int:
        """The number of the last piece."""
        return len(self.stops) - 1

    @property
    def stays(self) -> bool:
        """Whether some elements always stay as they are."""
        return -1 in self.kind_of

    def cuts_at(self, size: int) -> bool:
        """Whether elements are cut into pieces at multiples of `size` only."""
        return all(stop % size == 0 for stop in self.stops[:-1])


def updated(body: Body) -> tuple[Node, FlatUpdate, Variation]:
    """The node of the update, its op, and its formula."""
    node = body.anchor
    assert node is not None
    rule = cast(FlatUpdate, node.op)
    return node, rule, rule.variation(node.attrs, rule.named(node.types))


def view(body: Body, grid: RowsLike) -> FlatUpdateView[RowsLike]:
    """What the template of either language sees."""
    node, rule, variation = updated(body)
    found, values = variation.formula.numbers, variation.values
    read = {name for expr in found.values() for name in variables(expr)}
    by_range = tuple(name for name in rule.by_range(rule.named(node.types)) if name in read)
    varied = {*values, *by_range}
    own = {name: e for name, e in found.items() if varied.intersection(variables(e))}
    # What does not depend on the kind is not to be reckoned for each.
    divided = formula(own, varied)
    shared = {
        name: e if e.op == "var" else var(f"d{at}")
        for at, (name, e) in enumerate(divided.numbers.items())
    }
    texts = found | {name: substitute(e, shared) for name, e in divided.results.items()}
    numbers = {
        name: Number(f"n{at}", number_text(texts[name], rule.name), is_light(expr))
        for at, (name, expr) in enumerate(found.items())
    }
    attrs: Any = node.attrs
    cut = pieces(attrs.ranges, grid.size, bool(by_range))
    return FlatUpdateView(
        grid,
        node.results,
        tuple(n for n in (*rule.scalars, *rule.factors) if n in read and n not in by_range),
        tuple(one for name, one in numbers.items() if name not in own),
        tuple(one for name, one in numbers.items() if name in own),
        {n: tuple(literal(v, "f64") for v in values[n]) for n in values if n in read},
        by_range,
        {
            shared[name].args[0]: number_text(expr, rule.name)
            for name, expr in divided.numbers.items()
            if expr.op != "var"
        },
        len(distinct(attrs.ranges, bool(by_range))),
        tuple(piece.stop for piece in cut),
        tuple(piece.kind for piece in cut),
    )


def element_code(body: Body) -> Elementwise:
    """The code of an element, with numbers called n0, n1, …"""
    node, _, variation = updated(body)
    results = variation.formula.results
    read = {name for expr in results.values() for name in variables(expr)}
    lowered = Lowered(body, node.outputs[0].type.dtype, node.outputs[0].type.shape)
    names = {name: f"n{at}" for at, name in enumerate(variation.formula.numbers)}
    for at, name in enumerate(node.operands):
        if name in read and name not in names:
            names[name] = lowered.operand(node, at)
    known = dict[Expr, Expr]()
    targets = {expr: f"r{at}" for at, expr in enumerate(results.values())}
    for expr in named_parts(tuple(results.values())):
        target = targets.get(expr, f"t{len(known)}")
        parts = Expr(expr.op, tuple(replaced(arg, known) for arg in expr.args))
        lowered.lowering.assign(target, contracted(parts), names)
        known[expr] = var(f"part {target}")
        names[f"part {target}"] = target
    for value, expr in zip(node.outputs, results.values(), strict=True):
        leaf = known.get(expr, expr)
        constant = leaf.op == "const"
        value_name = lowered.lowering.literal(leaf.args[0]) if constant else names[leaf.args[0]]
        lowered.names[value.name] = value_name
    return lowered.code()


def named_parts(results: tuple[Expr, ...]) -> list[Expr]:
    """The results, and subexpressions that are read more than once: each after those it reads."""
    uses, found = Counter[Expr](results), list[Expr]()

    def visit(expr: Expr) -> None:
        if expr.op in ("var", "const") or expr in found:
            return
        for arg in expr.args:
            visit(arg)
            uses[arg] += 1
        found.append(expr)

    for expr in results:
        visit(expr)
    return [e for e in found if e in results or (uses[e] > 1 and e.op not in COMPARISONS)]


def replaced(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """The expression with parts replaced."""
    if expr in known:
        return known[expr]
    if expr.op in ("var", "const"):
        return expr
    return Expr(expr.op, tuple(replaced(arg, known) for arg in expr.args))


def contracted(expr: Expr) -> Expr:
    """The expression with products that are added or subtracted as one operation each, rounded
    once.
    """
    if expr.op in ("var", "const"):
        return expr
    first, *rest = args = [contracted(arg) for arg in expr.args]
    if expr.op == "+" and first.op == "*":
        return Expr("fma", (*first.args, *rest))
    if expr.op == "+" and rest[0].op == "*":
        return Expr("fma", (*rest[0].args, first))
    if expr.op == "-" and rest[0].op == "*":
        return Expr("fnma", (*rest[0].args, first))
    return Expr(expr.op, tuple(args))
