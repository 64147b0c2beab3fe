"""Fused kernels that sweeps try, each with the kernels of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import pytest
from sweep import Case
from swept_ops import every_op, is_chosen

from noeira.ir.attributes import needed
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.fused import close
from noeira.ir.graph import Node, Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.ops.reduction import Broadcast
from noeira.ir.samples import Draw
from noeira.ir.types import TensorType

# A fused node's case, then those of its parts.
Group = tuple[Case, ...]


def joined(label: str, build: Callable[[Builder], tuple[Value, ...]]) -> Group:
    """A fused node, its outputs what `build` returns; then its parts one by one."""
    builder = Builder("fused")
    outputs = build(builder)
    body = tuple(builder.nodes)
    assert not refusal(body), label
    node = close(body, {v.name for v in outputs}, body[0].origin)
    parts = (Case(f"{label}: {n.op.name}", n, draws_of(n)) for n in body)
    return (Case(label, node, draws_of(node)), *parts)


def draws_of(node: Node) -> tuple[Draw, ...]:
    """Normal operands."""
    return tuple(Draw(v.type) for v in node.inputs)


def inputs(builder: Builder, *shapes: tuple[int, ...], dtype: str = "f32") -> list[Value]:
    """Operands of these shapes."""
    return [builder.input(f"v{i}", TensorType(dtype, shape)) for i, shape in enumerate(shapes)]


def linear_then(rule: Op, stored: bool) -> Group:
    """A linear layer and an activation."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, w, b = inputs(builder, (9, 20), (20, 37), (37,))
        y = builder.emit("linear", x, w, b)
        z = builder.emit(rule.name, y, **needed(rule.Attrs))
        return (y, z) if stored else (z,)

    return joined(f"linear, {rule.name}{', both stored' if stored else ''}", build)


def chain(builder: Builder) -> tuple[Value, ...]:
    """Element-wise ops with operands of every access, two results of which are stored."""
    x, row, rows, one = inputs(builder, (5, 3, 17), (17,), (3, 17), ())
    y = builder.emit("gelu", builder.emit("subtract", x, row))
    z = builder.emit("multiply", builder.emit("relu", builder.emit("add", y, rows)), one)
    return y, builder.emit("tanh", builder.emit("add", z, y))


def rounded_chain(builder: Builder) -> tuple[Value, ...]:
    """Element-wise ops in 16 bits, rounded between them; one result is read as f32."""
    x, row, one = inputs(builder, (9, 37), (37,), (), dtype="bf16")
    y = builder.emit("multiply", builder.emit("add", x, row), one)
    z = builder.emit("subtract", builder.emit("relu", y), row)
    return y, z, builder.emit("scale", builder.emit("cast", z, dtype="f32"), factor=1 / 3)


def narrowed_product(builder: Builder) -> tuple[Value, ...]:
    """A product in f32 whose tail is rounded to 16 bits, and goes on so."""
    x, w, b = inputs(builder, (9, 20), (20, 37), (37,))
    y = builder.emit("cast", builder.emit("linear", x, w, b), dtype="bf16")
    half = builder.input("half", TensorType("bf16", (37,)))
    return (builder.emit("relu", builder.emit("add", y, half)),)


def widened_sum(builder: Builder) -> tuple[Value, ...]:
    """Column sums in f32 of what is stored in 16 bits."""
    (x,) = inputs(builder, (30, 33), dtype="f16")
    wide = builder.emit("cast", builder.emit("relu", x), dtype="f32")
    return (builder.emit("sum", wide, axes=tuple(range(len(wide.type.shape) - 1))),)


def rounded_rows(builder: Builder) -> tuple[Value, ...]:
    """Rows of 16 bits with an op before them and ops after them, all rounded."""
    (x,) = inputs(builder, (9, 37), dtype="bf16")
    y = builder.emit("softmax", builder.emit("scale", x, factor=1 / 3))
    return (builder.emit("cast", builder.emit("scale", y, factor=3.3), dtype="f32"),)


def slope_and_sum(name: str, shape: tuple[int, ...], stored: bool) -> Group:
    """The backward pass of an activation and the bias before it."""

    def build(builder: Builder) -> tuple[Value, ...]:
        d, x = inputs(builder, shape, shape)
        slope = builder.emit(name, d, x)
        total = builder.emit("sum", slope, axes=tuple(range(len(shape) - 1)), scale=0.5)
        return (slope, total) if stored else (total,)

    return joined(f"{name}, sum{', both stored' if stored else ''} {shape}", build)


def before_sum(
    axes: tuple[int, ...], shape: tuple[int, ...], *others: tuple[int, ...], dtype: str = "f32"
) -> Group:
    """A sum of what is made of several operands, which is stored too."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, *rest = inputs(builder, shape, *others, dtype=dtype)
        for value in rest:
            x = builder.emit("multiply", builder.emit("exp", x), value)
        return x, builder.emit("sum", x, axes=axes, scale=0.5)

    return joined(f"multiply, sum of {dtype} {shape} over {axes}", build)


def beside_product(*shapes: tuple[int, ...]) -> Group:
    """A product, then operands that are repeated along its rows, its columns, some of its axes."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, w, *rest = inputs(builder, (3, 5, 20), (20, 37), *shapes)
        y = builder.emit("matmul", x, w)
        for value in rest:
            y = builder.emit("multiply", builder.emit("tanh", y), value)
        return (y,)

    return joined(f"matmul, multiply by {shapes}", build)


def crossed(op: str, builder: Builder, **attrs: Any) -> tuple[Value, ...]:
    """An op on rows of a sum of which no operand has an element for each of their own."""
    rows, columns = inputs(builder, (9, 1), (37,))
    return (builder.emit(op, builder.emit("add", rows, columns), **attrs),)


def without_mean(builder: Builder) -> tuple[Value, ...]:
    """What waits for the sum of everything."""
    x, *_ = inputs(builder, (33, 300))
    y = builder.emit("tanh", x)
    return (builder.emit("subtract", y, builder.emit("sum", y, scale=1 / 9900)),)


def repeated(builder: Builder) -> tuple[Value, ...]:
    """Element-wise ops none of whose operands is whole, and one that says what is repeated."""
    rows, columns, middle = inputs(builder, (6, 1, 1), (1, 5, 16), (6, 1, 16))
    whole = builder.emit("broadcast", rows, shape=(6, 5, 16))
    y = builder.emit("add", builder.emit("multiply", whole, columns), middle)
    return (builder.emit("subtract", y, rows),)


def matmul_chain(builder: Builder) -> tuple[Value, ...]:
    """The backward pass of two layers: a product with a transposed weight, times a slope."""
    d, w, x = inputs(builder, (33, 10), (40, 10), (33, 40))
    return (builder.emit("relu.d0", builder.emit("matmul", d, w, transpose_b=True), x),)


def centred(shape: tuple[int, ...], stored: bool) -> Group:
    """Rows without the mean of all rows, which is a phase of its own."""

    def build(builder: Builder) -> tuple[Value, ...]:
        (x,) = inputs(builder, shape)
        y = builder.emit("relu", x)
        mean = builder.emit("sum", y, axes=tuple(range(len(y.type.shape) - 1)), scale=0.5)
        found = builder.emit("subtract", y, mean)
        return (mean, found) if stored else (found,)

    return joined(f"centred{', both stored' if stored else ''} {shape}", build)


def rows_behind(shape: tuple[int, ...], stored: bool) -> Group:
    """An op on rows with what it takes before and after it, behind what its columns gave."""

    def build(builder: Builder) -> tuple[Value, ...]:
        (x,) = inputs(builder, shape)
        mean = builder.emit("sum", x, axes=tuple(range(len(x.type.shape) - 1)), scale=0.5)
        apart = builder.emit("subtract", x, mean)
        found = builder.emit("scale", builder.emit("softmax", apart), factor=3.0)
        return (apart, found) if stored else (found,)

    return joined(f"rows behind columns{', stored' if stored else ''} {shape}", build)


def between(shape: tuple[int, ...], stored: bool) -> Group:
    """Element-wise ops over what came out of the columns, then over rows, and sums of those."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, row = inputs(builder, shape, shape[-1:])
        mean = builder.emit("sum", x, axes=tuple(range(len(x.type.shape) - 1)), scale=0.5)
        gain = builder.emit("multiply", builder.emit("tanh", mean), row)
        found = builder.emit("multiply", x, gain)
        total = builder.emit("sum", found, axes=tuple(range(len(found.type.shape) - 1)))
        return (gain, found, total) if stored else (total,)

    return joined(f"between{', all stored' if stored else ''} {shape}", build)


def variance(shape: tuple[int, ...], columns: int, stored: bool) -> Group:
    """A product, and of its columns mean and variance, in two readings; then what reads both."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, w, b, gain = inputs(builder, shape, (shape[-1], columns), (columns,), (columns,))
        y = builder.emit("tanh", builder.emit("linear", x, w, b))
        mean = builder.emit("sum", y, axes=tuple(range(len(y.type.shape) - 1)), scale=0.125)
        apart = builder.emit("subtract", y, mean)
        square = builder.emit("multiply", apart, apart)
        variance = builder.emit(
            "sum", square, axes=tuple(range(len(square.type.shape) - 1)), scale=0.125
        )
        scaled = builder.emit("multiply", apart, gain)
        found = builder.emit("relu", builder.emit("subtract", scaled, variance))
        return (y, variance, found) if stored else (found,)

    return joined(f"variance{', stored' if stored else ''} {shape}", build)


# Part of a vector, of a warp, a warp, a block: whole accesses or not, kept in registers or not.
ROWS = ((33, 3), (9, 10), (2, 5, 63), (4, 200), (3, 261), (2, 2049))


def added_and_scaled(builder: Builder, shape: tuple[int, ...]) -> tuple[Value, Value]:
    """A sum of two operands, and that times numbers along rows, times a number, made of a GELU."""
    x, f, row, one = inputs(builder, shape, shape, shape[-1:], ())
    s = builder.emit("add", x, f)
    scaled = builder.emit("multiply", builder.emit("multiply", s, row), one)
    return s, builder.emit("gelu", scaled)


def softmax_of(shape: tuple[int, ...], stored: bool) -> Group:
    """A softmax between element-wise ops, the last of which read what those before it made."""

    def build(builder: Builder) -> tuple[Value, ...]:
        s, scaled = added_and_scaled(builder, shape)
        y = builder.emit("softmax", scaled)
        mask = builder.input("mask", s.type)
        masked = builder.emit("multiply", y, mask)
        result = builder.emit("add", builder.emit("gelu", masked), s)
        return (s, scaled, y, masked, result) if stored else (result,)

    return joined(f"… softmax …{', all stored' if stored else ''} {shape}", build)


def softmax_grad_of(shape: tuple[int, ...], stored: bool) -> Group:
    """The backward pass of a softmax, a mask behind it and a scale before it."""

    def build(builder: Builder) -> tuple[Value, ...]:
        s, d = added_and_scaled(builder, shape)
        y = builder.input("y", s.type)
        d_x = builder.emit("softmax_grad", d, y)
        result = builder.emit("tanh", builder.emit("scale", d_x, factor=0.125))
        return (s, d_x, result) if stored else (result,)

    return joined(f"… softmax_grad …{', stored' if stored else ''} {shape}", build)


def centred_softmax(builder: Builder) -> tuple[Value, ...]:
    """A softmax of a GELU without the mean of all its rows, which is a phase of its own."""
    (x,) = inputs(builder, (9, 21))
    y = builder.emit("softmax", builder.emit("gelu", x))
    total = builder.emit("sum", y, axes=tuple(range(len(y.type.shape) - 1)), scale=0.125)
    return (builder.emit("tanh", builder.emit("subtract", y, total)),)


def row_sum_of(shape: tuple[int, ...], stored: bool) -> Group:
    """A row sum of element-wise ops."""

    def build(builder: Builder) -> tuple[Value, ...]:
        s, scaled = added_and_scaled(builder, shape)
        total = builder.emit("sum", scaled, axes=(-1,))
        return (s, total) if stored else (total,)

    return joined(f"… row sum{', stored' if stored else ''} {shape}", build)


def beside_head(name: str, shape: tuple[int, ...], **attrs: Any) -> Group:
    """An op on rows, and a result that is stored beside what it takes, made before that."""

    def build(builder: Builder) -> tuple[Value, ...]:
        (x,) = inputs(builder, shape)
        y = builder.emit("scale", x, factor=0.5)
        kept = builder.emit("tanh", y)
        return kept, builder.emit(name, builder.emit("gelu", y), **attrs)

    return joined(f"stored beside … {name} {shape}", build)


# Sums of each kind behind element-wise ops whose operands are read in all ways.
SUMS = (
    *(((), (33, 17), ()), ((), (8, 64), (8, 64)), ((0,), (20, 7), (20, 1))),
    *(((1,), (13, 40), (13, 1), (40,)), ((1,), (9, 33), (9, 1), ())),
    *(((-1,), (3, 4, 268), (4, 1), (3, 1, 268)), ((1,), (3, 11, 20), (3, 1, 1), (11, 1), (20,))),
)
HALF_SUMS = ((), ()), ((1,), (21,)), ((0, 1), (21,)), ((-1,), (21,))


@cache
def fused_groups() -> tuple[Group, ...]:
    """Every fused kernel that is swept: all forms, and every activation behind a linear layer."""
    activations = [
        rule
        for rule in every_op()
        if isinstance(rule, Elementwise)
        and len(rule.operands) == 1
        and "." not in rule.name
        and not isinstance(rule, Broadcast)
    ]
    return (
        joined("chain", chain),
        joined("chain in 16 bits", rounded_chain),
        joined("linear, cast, relu in 16 bits", narrowed_product),
        joined("relu in 16 bits, cast, sum", widened_sum),
        joined("scale, softmax, scale in 16 bits, cast", rounded_rows),
        *(
            slope_and_sum(name, shape, stored)
            for name in ("relu.d0", "gelu.d0")
            for shape in ((30, 33), (13, 10), (3, 4, 64), (650, 17))
            for stored in (False, True)
        ),
        *(linear_then(rule, stored) for rule in activations for stored in (False, True)),
        joined("matmul, relu.d0", matmul_chain),
        joined("gelu, softmax, centred", centred_softmax),
        *(
            group(stored)
            for group in (
                partial(centred, (13, 10)),
                partial(centred, (3, 4, 64)),
                partial(centred, (650, 17)),
                partial(rows_behind, (9, 37)),
                partial(between, (3, 4, 33)),
                partial(between, (650, 17)),
                partial(variance, (9, 20), 37),
                partial(variance, (600, 5), 70),
            )
            for stored in (False, True)
        ),
        *(
            group(shape, stored)
            for group in (softmax_of, softmax_grad_of, row_sum_of)
            for shape in ROWS
            for stored in (False, True)
        ),
        *(beside_head("softmax", shape) for shape in ROWS),
        beside_head("sum", (9, 10), axes=(-1,)),
        beside_head("sum", (33, 7), axes=(0,)),
        joined("repeated", repeated),
        joined("without its mean", without_mean),
        *(before_sum(*case) for case in SUMS),
        *(before_sum(axes, (3, 50, 21), other, dtype="bf16") for axes, other in HALF_SUMS),
        joined("add of rows and columns, softmax", partial(crossed, "softmax")),
        joined("add of rows and columns, sum", partial(crossed, "sum", axes=(0,))),
        beside_product((3, 1, 37), (5, 1)),
        beside_product((3, 1, 1), (5, 37), (3, 5, 1)),
    )


def ops_of(group: Group) -> tuple[str, ...]:
    """The names of the ops that are fused."""
    return tuple(dict.fromkeys(part.node.op.name for part in group[1:]))


def chosen_groups() -> list[Group]:
    """Those with an op that takes part."""
    return [group for group in fused_groups() if any(map(is_chosen, ops_of(group)))]


def each_group(groups: Iterable[Group]) -> pytest.MarkDecorator:
    """One test for each group, found by the exact names of its ops with `--op`."""
    found = [
        pytest.param(group, id=group[0].label, marks=pytest.mark.ops(*ops_of(group)))
        for group in groups
    ]
    return pytest.mark.parametrize("group", found)
