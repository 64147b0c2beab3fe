"""Sweeps over every op: its gradient, and that of element-wise ones twice, against differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import drawn, retyped
from shapes import operands, summed
from swept_ops import each_op, every_op

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.gradients import Backward, gradients
from noeira.ir.graph import Value
from noeira.ir.interpret import interpret
from noeira.ir.op import OPS as EVERY_OP
from noeira.ir.op import Op, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType

OPS = every_op()
ELEMENTWISE = [rule for rule in OPS if isinstance(rule, Elementwise) and "." not in rule.name]


def differentiable(sample: Sample) -> tuple[int, ...]:
    """The operands to differentiate in: those the sample names, or all floats."""
    if sample.differentiable is not None:
        return sample.differentiable
    return tuple(i for i, draw in enumerate(sample.operands) if draw.type.is_float)


def seeded(
    rule: Op, sample: Sample, chosen: Callable[[int], bool]
) -> tuple[Builder, list[Value], dict[int, Value]]:
    """A graph of the op: its builder, operands, and cotangents of the results that are chosen by
    their positions, but for those that only its own gradient reads.
    """
    builder = Builder("tiny")
    operands = [builder.input(f"v{i}", draw.type) for i, draw in enumerate(sample.operands)]
    made = builder.emit(rule.name, *operands, **sample.attrs)
    every = made if isinstance(made, tuple) else (made,)
    seeds = {
        i: builder.input(f"seed{i}", value.type)
        for i, value in enumerate(every)
        if value.type.is_float and builder.nodes[-1].results[i] not in rule.saved and chosen(i)
    }
    return builder, operands, seeds


def differentiated(
    rule: Op, sample: Sample, indices: Sequence[int], result: int | None = None
) -> tuple[Builder, list[Value], dict[int, Value], dict[str, Value]] | None:
    """The graph with its gradients, for cotangents of all results, or else of the first; or of one
    alone.

    None if it has no gradient.
    """
    ways = (lambda i: True, lambda i: i == 0) if result is None else (lambda i: i == result,)
    for chosen in ways:
        builder, operands, seeds = seeded(rule, sample, chosen)
        results = builder.nodes[-1].outputs
        pairs = {results[i].name: seed for i, seed in seeds.items()}
        try:
            found = gradients(builder, pairs, [operands[i] for i in indices], "vjp")
            return builder, operands, seeds, found
        except VerifyError as error:
            # Without a gradient at all, the samples must say so: differentiable = ().
            assert re.search(r"has no (second|third) derivative", str(error)), error
    return None


def check_direction(
    function: Callable[[np.ndarray], float], x: np.ndarray, gradient: np.ndarray, seed: int
) -> None:
    """Compare a gradient with central differences along random directions."""
    random = np.random.default_rng(seed)
    for _ in range(3):
        direction = random.standard_normal(x.shape)
        step = 1e-5 / max(1.0, float(np.linalg.norm(direction)) / np.sqrt(x.size))
        slope = (function(x + step * direction) - function(x - step * direction)) / (2 * step)
        size = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs(np.sum(gradient * direction) - slope) <= 1e-6 * max(float(size), 1.0)


@each_op(OPS)
def test_gradient_agrees_with_differences(rule: Op) -> None:
    for number, sample in enumerate(rule.samples()):
        check_gradient(rule, retyped(sample, "f64"), number)


@each_op([rule for rule in OPS if len(rule.results) > 1])
def test_gradient_of_each_result_alone(rule: Op) -> None:
    for sample in rule.samples()[-1:]:
        for result in range(len(rule.given_results(rule.Attrs(**sample.attrs)))):
            check_gradient(rule, retyped(sample, "f64"), result, result)


def test_the_sweep_sees_a_vjp_that_drops_a_cotangent() -> None:
    """The mean of a row that is taken from it, and its gradient without that of the mean."""

    class Dropped(Op):
        name, operands, results = "dropped", ("x",), ("", "mean")

        def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
            return x, TensorType(x.dtype, x.shape[:-1])

        def reference(self, attrs: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
            return x - x.mean(-1)[..., None], x.mean(-1)

        def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
            d = back.cotangents[0]
            return {"x": back.emit("dropped", d)[0]} if d is not None else {}

    sample = Sample((Draw(TensorType("f64", (4, 5))),))
    try:
        check_gradient(op("dropped"), sample, 0, 0)
        with pytest.raises(AssertionError):
            check_gradient(op("dropped"), sample, 1, 1)
    finally:
        EVERY_OP.pop("dropped")


def check_gradient(rule: Op, sample: Sample, seed: int, result: int | None = None) -> None:
    """Compare what vjp emits for a sample, run by the references, with differences: of all results,
    or of one alone.
    """
    indices = differentiable(sample)
    made = differentiated(rule, sample, indices, result) if indices else None
    if made is None or not made[2]:
        return
    builder, operands, seeds, found = made
    attrs = builder.nodes[0].attrs
    random = np.random.default_rng(seed)
    given = {v.name: drawn(d, random) for v, d in zip(operands, sample.operands, strict=True)}
    given |= {value.name: random.standard_normal(value.type.shape) for value in seeds.values()}
    values = interpret(builder.done(()), given)
    for index in indices:
        name = operands[index].name

        def loss(x: np.ndarray, name: str = name) -> float:
            moved = given | {name: x}
            results = rule.reference(
                attrs, *rule.arguments(attrs, [moved[v.name] for v in operands])
            )
            return float(sum(np.sum(results[i] * given[v.name]) for i, v in seeds.items()))

        gradient = values[found[name].name] if name in found else np.zeros(())
        check_direction(loss, given[name], np.broadcast_to(gradient, given[name].shape), seed)


@given(operands(2), st.integers(0, 9))
def test_gradient_of_what_is_repeated(shapes: tuple[tuple[int, ...], ...], seed: int) -> None:
    a, b = (Draw(TensorType("f64", shape), "positive") for shape in (shapes[0], shapes[-1]))
    check_gradient(op("divide"), Sample((a, b)), seed)


@given(summed(), st.integers(0, 9))
def test_gradient_of_a_sum(case: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    shape, axes = case
    x, kept = TensorType("f64", shape), tuple(1 if i in axes else n for i, n in enumerate(shape))
    check_gradient(op("sum"), Sample((Draw(x),), {"axes": axes, "scale": 0.5}), seed)
    small = Draw(TensorType("f64", kept))
    check_gradient(op("broadcast"), Sample((small,), {"shape": shape, "scale": -2.0}), seed)


@each_op(ELEMENTWISE)
def test_second_derivative_agrees_with_differences(rule: Op) -> None:
    """The gradient of the gradient, along the op's own graph."""
    sample = retyped(rule.samples()[0], "f64")
    # What random numbers follow from is a number.
    draws = tuple(
        d if d.type == COUNTER else replace(d, type=replace(d.type, shape=(23,)))
        for d in sample.operands
    )
    sample = Sample(draws, sample.attrs | ({"shape": (23,)} if "shape" in sample.attrs else {}))
    made = differentiated(rule, sample, differentiable(sample))
    assert made is not None
    builder, operands, seeds, found = made
    cotangents = {v.name: builder.input(f"u.{name}", v.type) for name, v in found.items()}
    second = gradients(builder, cotangents, operands, "vjp")
    random = np.random.default_rng(0)
    given = {v.name: drawn(d, random) for v, d in zip(operands, sample.operands, strict=True)}
    others = (*seeds.values(), *cotangents.values())
    given |= {value.name: random.standard_normal(value.type.shape) for value in others}
    graph = builder.done(())
    values = interpret(graph, given)
    for operand in (operand for operand in operands if operand.type.is_float):

        def product(x: np.ndarray, name: str = operand.name) -> float:
            run = interpret(graph, given | {name: x})
            return float(sum(np.sum(run[n] * given[u.name]) for n, u in cotangents.items()))

        known = second.get(operand.name)
        gradient = values[known.name] if known is not None else np.zeros(23)
        check_direction(product, given[operand.name], gradient, 1)


@pytest.mark.parametrize(
    ("name", "attrs", "x", "expected"),
    [
        ("relu", {}, [-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
        ("leaky_relu", {"slope": 0.5}, [-1.0, 0.0, 2.0], [0.5, 0.5, 1.0]),
        ("clamp", {"low": -1.0, "high": 2.0}, [-1.5, -1.0, 2.0, 2.5], [0.0, 1.0, 1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("d", [1.0, np.inf])
def test_slopes_at_the_kinks(name: str, attrs: dict, x: list, expected: list, d: float) -> None:
    """As PyTorch defines them; and where the slope is 0, so is the gradient, whatever comes in."""
    rule, slope = op(name), op(f"{name}.d0")
    array = np.array(x)
    (y,) = rule.reference(rule.Attrs(**attrs), array)
    read = y if slope.operands[1:] == ("a.y",) else array
    (got,) = slope.reference(slope.Attrs(**attrs), np.full_like(array, d), read)
    wanted = [d * e if e else 0.0 for e in expected]
    np.testing.assert_array_equal(got, wanted)
