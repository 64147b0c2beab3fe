"""16-bit floats in graphs: sums and losses are f32 inside, gradients flow through casts, and what
cannot be one kernel says why.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from noeira.errors import DtypeError
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.gradients import gradients
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.interpret import interpret
from noeira.ir.types import TensorType

BF16 = np.dtype(ml_dtypes.bfloat16)


def test_a_sum_is_rounded_once() -> None:
    builder = Builder("sum")
    x = builder.input("x", TensorType("bf16", (1000,)))
    total = builder.emit("sum", x)
    values = interpret(builder.done((total,)), {"x": np.full(1000, 1.0, BF16)})
    # Added up in bf16, ones would never come past 256.
    assert total.type == TensorType("bf16", ()) and float(values[total.name]) == 1000


def graph_of(loss: str) -> tuple[ComputeGraph, Value, Value, Value]:
    """A loss over logits in bf16 of what is f32: the graph, the loss, the logits' gradient, x's."""
    builder = Builder(loss)
    x = builder.input("x", TensorType("f32", (4, 5)))
    z = builder.emit("cast", builder.emit("scale", x, factor=3.0), dtype="bf16")
    labels = TensorType("i32", (4,)) if loss == "cross_entropy" else z.type
    target = builder.input("target", labels, 5 if loss == "cross_entropy" else None)
    made = builder.emit(loss, z, target)
    value = made[0] if isinstance(made, tuple) else made
    seed = builder.emit("constant", value=1.0, dtype=value.type.dtype)
    found = gradients(builder, {value.name: seed}, [x, z], "vjp")
    d_x, d_z = found[x.name], found[z.name]
    return builder.done((value, d_z, d_x)), value, d_z, d_x


@pytest.mark.parametrize("loss", ["cross_entropy", "soft_cross_entropy", "mse"])
def test_a_loss_of_16_bits_is_f32(loss: str) -> None:
    graph, value, d_z, d_x = graph_of(loss)
    assert (value.type.dtype, d_z.type.dtype, d_x.type.dtype) == ("f32", "bf16", "f32")
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 5)).astype(np.float32)
    target = np.arange(4, dtype=np.int32) if loss == "cross_entropy" else np.full((4, 5), 0.2, BF16)
    values = interpret(graph, {"x": x, "target": target})
    logits = (x * np.float32(3)).astype(BF16).astype(np.float64)
    hot = np.eye(5)[target] if loss == "cross_entropy" else target.astype(np.float64)
    if loss == "mse":
        wanted, d_wanted = ((logits - hot) ** 2).mean(), 2 * (logits - hot) / logits.size
    else:
        lse = np.log(np.exp(logits).sum(-1, keepdims=True))
        wanted, d_wanted = (hot * (lse - logits)).sum(-1).mean(), (np.exp(logits - lse) - hot) / 4
    np.testing.assert_allclose(values[value.name], wanted, rtol=2e-3 if loss != "mse" else 1e-6)
    np.testing.assert_allclose(values[d_z.name].astype(np.float64), d_wanted, rtol=2**-7, atol=2e-4)
    # The cast hands its cotangent on; what comes before it is f32 again.
    given = values[d_z.name].astype(np.float32) * np.float32(3)
    assert np.array_equal(values[d_x.name], given)


def test_one_kernel_computes_in_one_dtype() -> None:
    builder = Builder("mixed")
    x = builder.input("x", TensorType("f32", (4, 5)))
    builder.emit("cast", builder.emit("relu", x), dtype="f64")
    assert refusal(builder.nodes) == "cast is computed in f64, relu in f32"
    half = Builder("half")
    x = half.input("x", TensorType("f32", (4, 5)))
    half.emit("relu", half.emit("cast", x, dtype="f16"))
    assert refusal(half.nodes) == ""


def test_operands_of_two_dtypes_are_refused() -> None:
    builder = Builder("two")
    x = builder.input("x", TensorType("f32", (4, 5)))
    y = builder.input("y", TensorType("bf16", (4, 5)))
    with pytest.raises(DtypeError, match=r"operand b is bf16.*must be floats of one dtype"):
        builder.emit("add", x, y)
    with pytest.raises(DtypeError, match="cast: to i32; there are f32, f64, bf16, f16"):
        builder.emit("cast", x, dtype="i32")
