"""Hessian-vector products: `gradients` twice through a classifier, against differences of one."""

from __future__ import annotations

import numpy as np
import pytest

from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.interpret import interpret
from noeira.ir.types import TensorType

SHAPES = {"w0": (6, 5), "b0": (5,), "w1": (5, 4), "b1": (4,)}
ROWS = 7
PRODUCT, GRADIENT, DIRECTION = "hv.", "g.", "v."


def classifier(activation: str, smoothing: float) -> ComputeGraph:
    """Linear, activation, linear, cross-entropy; outputs: each parameter's gradient, and H·v."""
    builder = Builder("hessian")
    x = builder.input("x", TensorType("f64", (ROWS, 6)))
    target = builder.input("target", TensorType("i32", (ROWS,)))
    params = [builder.input(name, TensorType("f64", shape)) for name, shape in SHAPES.items()]
    w0, b0, w1, b1 = params
    hidden = builder.emit(activation, builder.emit("linear", x, w0, b0))
    logits = builder.emit("linear", hidden, w1, b1)
    loss, _ = builder.emit("cross_entropy", logits, target, smoothing=smoothing)
    one = builder.emit("constant", value=1.0, dtype="f64")
    first = gradients(builder, {loss.name: one}, params, "vjp")
    directions = {p.name: builder.input(DIRECTION + p.name, p.type) for p in params}
    seeds = {first[p.name].name: directions[p.name] for p in params}
    second = gradients(builder, seeds, params, "vjp")
    outputs = list[Value]()
    for found, prefix in ((first, GRADIENT), (second, PRODUCT)):
        for param in params:
            outputs.append(builder.emit("copy", found[param.name], hint=prefix + param.name))
    return builder.done(outputs)


def operands(seed: int) -> dict[str, np.ndarray]:
    """Data, parameters and a direction."""
    random = np.random.default_rng(seed)
    given = {
        "x": random.standard_normal((ROWS, 6)),
        "target": random.integers(0, 4, ROWS).astype("i4"),
    }
    for name, shape in SHAPES.items():
        given[name] = 0.5 * random.standard_normal(shape)
        given[DIRECTION + name] = random.standard_normal(shape)
    return given


def flat(values: dict[str, np.ndarray], prefix: str) -> np.ndarray:
    """One vector of the values of all parameters."""
    return np.concatenate([values[prefix + name].ravel() for name in SHAPES])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("activation", ["tanh", "gelu", "silu", "softplus", "mish"])
def test_hessian_vector_product_agrees_with_differences(activation: str, smoothing: float) -> None:
    graph, given, step = classifier(activation, smoothing), operands(0), 1e-5
    product = flat(interpret(graph, given), PRODUCT)

    def gradient(shift: float) -> np.ndarray:
        moved = {name: given[name] + shift * given[DIRECTION + name] for name in SHAPES}
        return flat(interpret(graph, given | moved), GRADIENT)

    difference = (gradient(step) - gradient(-step)) / (2 * step)
    assert np.linalg.norm(product - difference) <= 1e-8 * np.linalg.norm(product)


def test_hessian_is_symmetric() -> None:
    graph = classifier("tanh", 0.1)
    given, other = operands(0), operands(1)
    turned = given | {DIRECTION + name: other[DIRECTION + name] for name in SHAPES}
    left = flat(interpret(graph, given), PRODUCT) @ flat(turned, DIRECTION)
    right = flat(interpret(graph, turned), PRODUCT) @ flat(given, DIRECTION)
    assert left == pytest.approx(right, rel=1e-12)
