"""Ops on rows of a user's own file: with element-wise ops before and after them, several results,
and gradients, on every target.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from fused_cases import Group, inputs, joined
from needs import needs_compiler, needs_cxx
from own_rows.own_norm import Norm, Scaled, Softmax
from sweep import assert_agrees, assert_bits_of_parts
from sweep_units import C_SPLIT, CUDA, CUDA_LARGE_ROWS, CUDA_TURNS, C, Variant, all_ways, built

import noeira
from noeira.ir.body import joined as joined_phases
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.graph import Value
from noeira.ir.phasing import Order
from noeira.nn import GELU, MSE, Fused, Linear, Module, Residual, Scope, Sequential, Sigmoid, Tanh

SHAPES = ((1,), (5, 1), (33, 3), (9, 10), (2, 5, 63), (4, 200), (3, 261), (2, 2049))


def norm_of(shape: tuple[int, ...], stored: bool) -> Group:
    """A residual sum, its norm, an activation; the sum, mean and rstd are stored too."""

    def build(builder: Builder) -> tuple[Value, ...]:
        x, f, gain, bias = inputs(builder, shape, shape, shape[-1:], shape[-1:])
        s = builder.emit("add", x, f)
        y, mean, rstd = builder.emit("own_norm", s, gain)
        result = builder.emit("gelu", builder.emit("add", y, bias))
        return (s, y, mean, rstd, result) if stored else (rstd, result)

    return joined(f"own_norm{', all stored' if stored else ''} {shape}", build)


def norm_grad_of(shape: tuple[int, ...], stored: bool) -> Group:
    """The backward pass of an activation, a norm and a residual sum."""

    def build(builder: Builder) -> tuple[Value, ...]:
        d, y, x, gain = inputs(builder, shape, shape, shape, shape[-1:])
        mean, rstd = (builder.input(name, v) for name, v in zip("mr", rows(shape), strict=True))
        d_y = builder.emit("gelu.d0", d, y)
        d_s = builder.emit("own_norm_grad", d_y, x, gain, mean, rstd)
        return (d_y, builder.emit("add", d_s, y)) if stored else (builder.emit("add", d_s, y),)

    return joined(f"own_norm_grad{', all stored' if stored else ''} {shape}", build)


def rows(shape: tuple[int, ...]) -> list:
    """The types of two numbers a row."""
    from noeira.ir.types import TensorType

    return [TensorType("f32", shape[:-1])] * 2


# The stages and turns of large shapes; as small ones are taken, in the slow suite.
VARIANTS = (
    *(C_SPLIT, CUDA_TURNS, CUDA_LARGE_ROWS),
    *(pytest.param(variant, marks=pytest.mark.slow) for variant in (C, CUDA)),
)
GROUPS = [g(s, stored) for g, s, stored in product((norm_of, norm_grad_of), SHAPES, (False, True))]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_fused_kernel_gives_the_bits_of_its_parts(variant: Variant) -> None:
    library = built([case for group in GROUPS for case in group], variant)
    for group in GROUPS:
        arrays = group[0].arrays()
        results = all_ways(library, group[0], arrays)
        assert_bits_of_parts(group, arrays, results, library.run)
        assert_agrees(group[0], results, arrays, factor=50)


def network(columns: int, fused: bool) -> type[Module]:
    """A residual sum, its norm and an activation; then a scaled softmax, and what follows it."""
    parts = (Residual[Tanh], Norm[columns], GELU), (Scaled, Softmax, Sigmoid)
    blocks = [Fused[part] if fused else Sequential[part] for part in parts]
    return Sequential[Linear[4, columns], *blocks, Linear[columns, 2]]


def data(batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets."""
    random = np.random.default_rng(batch)
    return random.standard_normal((batch, 4)), random.standard_normal((batch, 2))


def gradients(program: noeira.Program, batch: int) -> tuple[bytes, bytes]:
    """The bits of the loss and of all gradients."""
    loss = program.gradients(*(a.astype("f4") for a in data(batch)))
    return np.asarray(loss).tobytes(), program.store.arrays["gradients"].tobytes()


@needs_compiler
@needs_cxx
@pytest.mark.parametrize(("batch", "columns"), ((1, 1), (5, 3), (3, 63), (2, 261)))
def test_fused_types_have_the_gradients_of_the_reference(batch: int, columns: int) -> None:
    found = []
    for target in ("reference", "cpu", "cuda-cpu"):
        options = {"loss": MSE, "batch": batch, "dtype": "f64", "target": target}
        program = noeira.compile(network(columns, fused=True), **options)
        loss = program.gradients(*data(batch))
        found.append((loss, program.store.arrays["gradients"].copy()))
    for other in found[1:]:
        np.testing.assert_allclose(other[0], found[0][0], rtol=1e-12)
        np.testing.assert_allclose(other[1], found[0][1], rtol=1e-9, atol=1e-13)


@needs_compiler
@needs_cxx
@pytest.mark.parametrize("target", ("cpu", "cuda-cpu"))
@pytest.mark.parametrize(("batch", "columns"), ((5, 3), (70, 100)))
def test_fused_types_give_the_bits_of_their_parts(target: str, batch: int, columns: int) -> None:
    options = {"loss": MSE, "batch": batch, "target": target, "seed": 3}
    one, other = (noeira.compile(network(columns, f), **options) for f in (True, False))
    assert gradients(one, batch) == gradients(other, batch)


def test_fused_types_are_one_kernel_forward_and_backward() -> None:
    explained = noeira.explain(network(10, fused=True), loss=MSE)
    ops = [launch.op for launch in explained.launches]
    assert "fused[tanh, add, own_norm, gelu]" in ops
    assert "fused[scale, softmax, sigmoid]" in ops
    assert "fused[sigmoid.d0, softmax_grad, scale.d0]" in ops
    assert any(op.startswith("fused[gelu.d0, own_norm_grad") for op in ops), ops


class RowScaled(Module):
    """The softmax of rows, by a view of their sums."""

    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        y = scope.emit("softmax", x)
        total = scope.emit("sum", y, axes=(-1,))
        return y * scope.emit("reshape", total, shape=(*total.type.shape, 1))


@pytest.mark.parametrize(
    "target", [pytest.param("cpu", marks=needs_compiler), pytest.param("cuda-cpu", marks=needs_cxx)]
)
def test_an_op_on_rows_follows_another_in_one_call(target: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 33)).astype("f4")
    nets = [Sequential[one[RowScaled, Tanh], Linear[33, 3]] for one in (Fused, Sequential)]
    first, _ = noeira.explain(nets[0], loss=MSE, entry="forward").launches
    assert first.stages == ("softmax", "row_sum", "map")
    joined, apart = (noeira.compile(net, batch=7, seed=1, target=target) for net in nets)
    assert joined.forward(x).tobytes() == apart.forward(x).tobytes()


def test_what_reads_another_result_than_the_first_is_a_phase_of_its_own() -> None:
    builder = Builder("test")
    x, gain = inputs(builder, (4, 4), (4,))
    y, mean, _ = builder.emit("own_norm", x, gain)
    builder.emit("multiply", y, mean)
    assert refusal(builder.nodes) == ""
    first, second = joined_phases(builder.nodes, Order(builder.nodes)).bodies
    assert [part.op.name for part in first.parts] == ["own_norm"]
    assert [part.op.name for part in second.parts] == ["multiply"]
