"""Expressions that drop operands, as `w * x + (1 - w) * z` does at w = 1: kernels read and make
only what is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import pytest
from fused_cases import Group, inputs, joined
from sweep import Case, assert_agrees, assert_bits_of_parts, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Library, Variant, all_ways, built
from swept_ops import launching

from noeira.codegen.kernel import kernel_text
from noeira.errors import NoeiraError
from noeira.ir.attributes import declared
from noeira.ir.builder import Builder
from noeira.ir.graph import Attrs, Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.plan import Call
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, var
from noeira.ir.states import COUNTER

ROWS, COLUMNS = SHAPE = (9, 37)
VARIANTS = pytest.mark.parametrize(
    "variant",
    [
        pytest.param(variant, marks=pytest.mark.xdist_group(f"{variant} dropped"))
        for variant in (C_SPLIT, CUDA_TURNS)
    ],
    ids=str,
)
# The results that are stored.
Results = tuple[Value, ...]


@dataclass(frozen=True)
class WeightAttrs(Attrs):
    """w: the weight of the first operand."""

    w: float = 0.25


class Blend(Elementwise):
    """w x + (1 - w) z"""

    name, operands, Attrs = "own_blend", ("x", "z"), WeightAttrs

    def expression(self, attrs: WeightAttrs) -> Expr:
        return var("x") * attrs.w + var("z") * (1 - attrs.w)


class Jitter(Elementwise):
    """x times a random number from 1 - w to 1"""

    name, operands, Attrs = "own_jitter", ("x", "seed", "tick", "stream"), WeightAttrs
    numbers = ("seed", "tick", "stream")

    def expression(self, attrs: WeightAttrs) -> Expr:
        drawn = call("uniform", var("seed"), var("tick"), var("stream"))
        return var("x") * (1 - drawn * attrs.w)


def alone(builder: Builder, w: float, stored: bool) -> Results:
    """The op alone, over operands one of which is repeated, or both."""
    x, z = inputs(builder, SHAPE if stored else (ROWS, 1), (COLUMNS,))
    return (builder.emit("own_blend", x, z, w=w),)


def drawn(builder: Builder, w: float, stored: bool) -> Results:
    """Random numbers, as in the head of a softmax."""
    (x,) = inputs(builder, SHAPE)
    keys = [builder.input(name, COUNTER) for name in ("seed", "tick", "stream")]
    y = builder.emit("own_jitter", x, *keys, w=w)
    found = builder.emit("softmax", y)
    return (y, found) if stored else (found,)


def chain(builder: Builder, w: float, stored: bool) -> Results:
    """What is dropped is made by other ops."""
    x, z, row = inputs(builder, SHAPE, SHAPE, (COLUMNS,))
    y = builder.emit("exp", builder.emit("add", z, row))
    found = builder.emit("gelu", builder.emit("own_blend", x, builder.emit("tanh", y), w=w))
    return (y, found) if stored else (found,)


def after(name: str, builder: Builder, w: float, stored: bool, dtype: str = "f32") -> Results:
    """Behind an anchor, the result of which is dropped, or all that is left."""
    x, weights, bias, z = inputs(builder, SHAPE, (COLUMNS, 20), (20,), (ROWS, 20))
    operands = {"linear": (x, weights, bias), "matmul": (x, weights), "softmax": (z,)}[name]
    y = builder.emit("tanh", builder.emit(name, *operands))
    if dtype != "f32":
        y, z = (builder.emit("cast", one, dtype=dtype) for one in (y, z))
    found = builder.emit("own_blend", y, z, w=w)
    return (y, found) if stored else (found,)


def before(name: str, builder: Builder, w: float, stored: bool, **attrs: Any) -> Results:
    """Before an anchor, and in its tail again if it takes one."""
    x, z = inputs(builder, SHAPE, SHAPE)
    y = builder.emit("tanh", x)
    blend = builder.emit("own_blend", builder.emit("exp", y), z, w=w)
    found = builder.emit(name, blend, **attrs)
    if name == "softmax":
        found = builder.emit("own_blend", builder.emit("relu", found), y, w=w)
    return (y, blend, found) if stored else (found,)


def number(name: str, builder: Builder, w: float, stored: bool, **attrs: Any) -> Results:
    """All that is before an anchor, and after it, may be dropped."""
    (x,) = inputs(builder, SHAPE)
    y = builder.emit("broadcast", builder.emit("exp", x), shape=SHAPE, scale=w)
    found = builder.emit(name, y, **attrs)
    if name == "softmax":
        found = builder.emit("broadcast", found, shape=SHAPE, scale=w)
    return (y, found) if stored else (found,)


def phases(builder: Builder, w: float, stored: bool) -> Results:
    """What is dropped crosses from one phase to the next."""
    x, z = inputs(builder, SHAPE, SHAPE)
    y = builder.emit("relu", x)
    mean = builder.emit("sum", y, axes=(0,), scale=0.5)
    apart = builder.emit("own_blend", builder.emit("subtract", y, mean), z, w=w)
    found = builder.emit("softmax", builder.emit("own_blend", apart, mean, w=w))
    return (mean, apart, found) if stored else (found,)


AXES = ((0,), (1,), ())
BUILDS: dict[str, Callable[..., Results]] = {
    "alone": alone,
    "drawn": drawn,
    "chain": chain,
    "phases": phases,
    **{f"after {name}": partial(after, name) for name in ("linear", "matmul", "softmax")},
    "after linear in 16 bits": partial(after, "linear", dtype="bf16"),
    **{f"{how.__name__} softmax": partial(how, "softmax") for how in (before, number)},
    **{
        f"{how.__name__} sum over {axes}": partial(how, "sum", axes=axes)
        for how, axes in product((before, number), AXES)
    },
}


@cache
def groups() -> dict[str, Group]:
    """Kernels that drop something."""
    return {
        f"{label}, w = {w}{', stored' if stored else ''}": joined(
            label, partial(build, w=w, stored=stored)
        )
        for (label, build), w, stored in product(BUILDS.items(), (0.0, 1.0), (False, True))
    }


@cache
def fused_library(variant: Variant) -> Library:
    """Their kernels, and those of their parts."""
    return built([case for group in groups().values() for case in group], variant)


@pytest.mark.parametrize("label", groups())
@VARIANTS
def test_kernels_give_the_bits_of_their_parts(label: str, variant: Variant) -> None:
    group, library = groups()[label], fused_library(variant)
    arrays = group[0].arrays()
    results = all_ways(library, group[0], arrays)
    assert_bits_of_parts(group, arrays, results, library.run)
    assert_agrees(group[0], results, arrays)


def sources_of(label: str) -> set[str]:
    """The operands that the C kernel of a group reads."""
    node = groups()[label][0].node
    text = kernel_text(Call(node, C_SPLIT.chooses.choose(node)), C_SPLIT.chooses, "k")
    marked = set(re.findall(r"\(void\)(a\d+);", text))
    return {f"a{i}" for i in range(len(node.inputs))} - marked


def test_only_what_is_left_is_read_and_made() -> None:
    # z, row, x; at w = 1 what is made of the first two is dropped.
    assert sources_of("chain, w = 1.0") == {"a2"}
    assert sources_of("chain, w = 0.0") == {"a0", "a1"}
    assert sources_of("chain, w = 1.0, stored") == {"a0", "a1", "a2"}
    node = groups()["chain, w = 1.0"][0].node
    text = kernel_text(Call(node, C_SPLIT.chooses.choose(node)), C_SPLIT.chooses, "k")
    assert "normal_cdf" in text and "exp_f32" not in text and "tanh_f32" not in text


def extreme_samples(rule: Op) -> list[Sample]:
    """The largest sample of an op with its numbers all 0, then all 1, where it takes these."""
    floats = [name for name, kind in declared(rule.Attrs).items() if kind is float]
    samples = sorted(rule.samples(), key=lambda sample: sum(d.type.size for d in sample.operands))
    found = list[Sample]()
    for value in (0.0, 1.0) if floats and samples else ():
        sample = replace(samples[-1], attrs=samples[-1].attrs | dict.fromkeys(floats, value))
        try:
            rule.types(rule.Attrs(**sample.attrs), [draw.type for draw in sample.operands])
        except NoeiraError:
            continue
        found.append(sample)
    return found


@cache
def extreme_cases() -> tuple[Case, ...]:
    """Every op that has numbers, with these at 0 and at 1."""
    return tuple(sample_case(rule, s) for rule in launching() for s in extreme_samples(rule))


@cache
def extreme_library(variant: Variant) -> Library:
    """Their kernels."""
    return built(extreme_cases(), variant)


@pytest.mark.parametrize("case", extreme_cases(), ids=lambda case: case.label)
@VARIANTS
def test_numbers_of_an_op_may_be_0_and_1(case: Case, variant: Variant) -> None:
    arrays = case.arrays()
    assert_agrees(case, all_ways(extreme_library(variant), case, arrays), arrays)
