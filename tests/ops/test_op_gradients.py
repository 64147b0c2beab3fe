"""Sweeps over every op: its gradient, and that of element-wise ones twice, against differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import drawn, retyped
from shapes import operands, summed
from swept_ops import each_op, every_op

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import Value
from noeira.ir.interpret import interpret
from noeira.ir.op import Op, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

OPS = every_op()
ELEMENTWISE = [rule for rule in OPS if isinstance(rule, Elementwise) and "." not in rule.name]


def differentiable(sample: Sample) -> tuple[int, ...]:
    """The operands to differentiate in: those the sample names, or all floats."""
    if sample.differentiable is not None:
        return sample.differentiable
    return tuple(i for i, draw in enumerate(sample.operands) if draw.type.is_float)


def seeded(rule: Op, sample: Sample, outputs: int) -> tuple[Builder, list[Value], list[Value]]:
    """A graph of the op: its builder, operands, and cotangents of its first outputs, but for those
    that only its own gradient reads.
    """
    builder = Builder("tiny")
    operands = [builder.input(f"v{i}", draw.type) for i, draw in enumerate(sample.operands)]
    made = builder.emit(rule.name, *operands, **sample.attrs)
    every = made if isinstance(made, tuple) else (made,)
    results = [v for i, v in enumerate(every) if rule.results[i : i + 1][0] not in rule.saved]
    seeds = [builder.input(f"seed{i}", v.type) for i, v in enumerate(results[:outputs])]
    return builder, operands, seeds


def differentiated(
    rule: Op, sample: Sample, indices: Sequence[int]
) -> tuple[Builder, list[Value], list[Value], dict[str, Value]] | None:
    """The graph with its gradients, for cotangents of all outputs or else of the first.

    None if it has no gradient.
    """
    types = rule.infer(rule.Attrs(**sample.attrs), *[draw.type for draw in sample.operands])
    for outputs in dict.fromkeys((len(types), 1)):
        builder, operands, seeds = seeded(rule, sample, outputs)
        results = builder.nodes[-1].outputs
        pairs = {v.name: seed for v, seed in zip(results, seeds, strict=False)}
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


def check_gradient(rule: Op, sample: Sample, seed: int) -> None:
    """Compare what vjp emits for a sample, run by the references, with differences."""
    indices = differentiable(sample)
    made = differentiated(rule, sample, indices) if indices else None
    if made is None:
        return
    builder, operands, seeds, found = made
    attrs = builder.nodes[0].attrs
    random = np.random.default_rng(seed)
    given = {v.name: drawn(d, random) for v, d in zip(operands, sample.operands, strict=True)}
    given |= {value.name: random.standard_normal(value.type.shape) for value in seeds}
    values = interpret(builder.done(()), given)
    for index in indices:
        name = operands[index].name

        def loss(x: np.ndarray, name: str = name) -> float:
            moved = given | {name: x}
            results = rule.reference(attrs, *[moved[v.name] for v in operands])
            pairs = zip(results, seeds, strict=False)
            return float(sum(np.sum(r * given[value.name]) for r, value in pairs))

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
    draws = tuple(Draw(TensorType("f64", (23,)), draw.kind) for draw in sample.operands)
    sample = Sample(draws, sample.attrs)
    made = differentiated(rule, sample, range(len(sample.operands)))
    assert made is not None
    builder, operands, seeds, found = made
    cotangents = {v.name: builder.input(f"u.{name}", v.type) for name, v in found.items()}
    second = gradients(builder, cotangents, operands, "vjp")
    random = np.random.default_rng(0)
    given = {v.name: drawn(d, random) for v, d in zip(operands, sample.operands, strict=True)}
    others = (*seeds, *cotangents.values())
    given |= {value.name: random.standard_normal(value.type.shape) for value in others}
    graph = builder.done(())
    values = interpret(graph, given)
    for operand in operands:

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
