"""Two batch normalisations of plain ops side by side, added, in one call: against NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.compiler import run_passes
from noeira.ir.body import phases_of
from noeira.ir.graph import ADJOINT, Value
from noeira.ir.random import constant
from noeira.job import job_of
from noeira.nn import MSE, SGD, Buffer, Linear, Module, Param, Scope, size

BATCH, INPUTS, COLUMNS = 10, 6, 8
EPS, MOMENTUM = 1e-3, 0.25
TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]


class AddedNorms(Module):
    """relu(norm(a) + norm(b)), and running statistics of both."""

    D = size()
    gain_a = Param("D", init=constant(1.5))
    gain_b = Param("D", init=constant(0.75))
    mean_a = Buffer("D", init=constant(0.0))
    mean_b = Buffer("D", init=constant(0.0))
    variance_a = Buffer("D", init=constant(1.0))
    variance_b = Buffer("D", init=constant(1.0))
    signature = "(D), (D) -> (D)"

    @classmethod
    def trace(cls, scope: Scope, a: Value, b: Value) -> Value:
        found = scope.emit("add", cls.norm(scope, "a", a), cls.norm(scope, "b", b))
        return scope.emit("relu", found)

    @classmethod
    def norm(cls, scope: Scope, name: str, x: Value) -> Value:
        """x · gain without its mean, by its deviation: of the batch in training, kept else."""
        mean, variance = scope.param(f"mean_{name}"), scope.param(f"variance_{name}")
        if scope.phase == "train":
            old, scale = (mean, variance), 1 / x.type.shape[0]
            mean = scope.emit("sum", x, axes=(0,), scale=scale)
            apart = scope.emit("subtract", x, mean)
            square = scope.emit("multiply", apart, apart)
            variance = scope.emit("sum", square, axes=(0,), scale=scale)
            for path, new, kept in zip(("mean", "variance"), (mean, variance), old, strict=True):
                scope.update(f"{path}_{name}", kept + (new - kept) * MOMENTUM)
        else:
            apart = scope.emit("subtract", x, mean)
        rstd = scope.emit("exp", scope.emit("log", variance + EPS) * -0.5)
        return scope.emit("multiply", apart, rstd * scope.param(f"gain_{name}"))


class Fork(Module):
    """Two products of the same rows, normalised and added."""

    signature = f"({INPUTS}) -> ({COLUMNS})"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        product = Linear[INPUTS, COLUMNS]
        return (("a", product), ("b", product), ("norms", AddedNorms[COLUMNS]))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        (a, left), (b, right), (name, norms) = cls.children()
        branches = scope.child(a, left).run(x), scope.child(b, right).run(x)
        return scope.child(name, norms).fused().run(*branches)


OPTIONS: dict[str, Any] = {"batch": BATCH, "loss": MSE, "optimizer": SGD(lr=0.1)}


def result(tensors: Mapping[str, np.ndarray], x: np.ndarray, kept: bool = False) -> np.ndarray:
    """What the network gives, in f64, with statistics of the batch or with those kept."""
    total = np.zeros((len(x), COLUMNS))
    for name in "ab":
        y = x @ tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        mean, variance = statistics(tensors, x, name)
        if kept:
            mean, variance = (tensors[f"norms.{s}_{name}"] for s in ("mean", "variance"))
        total += (y - mean) / np.sqrt(variance + EPS) * tensors[f"norms.gain_{name}"]
    return np.maximum(total, 0)


def statistics(
    tensors: Mapping[str, np.ndarray], x: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a branch in a batch."""
    y = x @ tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
    return y.mean(0), y.var(0)


def loss(tensors: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """The mean square of what the network gives without y."""
    return float(((result(tensors, x) - y) ** 2).mean())


def slopes(
    tensors: Mapping[str, np.ndarray], path: str, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The gradient of the loss in a tensor, by differences."""
    found, step = np.zeros_like(tensors[path]), 1e-6
    for place in np.ndindex(found.shape):
        moved = []
        for sign in (1, -1):
            changed = tensors[path].copy()
            changed[place] += sign * step
            moved.append(loss({**tensors, path: changed}, x, y))
        found[place] = (moved[0] - moved[1]) / (2 * step)
    return found


def test_each_way_is_one_call() -> None:
    graph = run_passes(job_of(Fork, **OPTIONS).step()).graph
    calls = [node for node in graph.launching() if node.group]
    assert [node.group for node in calls] == ["norms", f"norms{ADJOINT}"]
    # Means of both, what is kept of these, variances of both, what is kept of these, the rows.
    labels = phases_of(calls[0]).labels
    assert labels == ("column", "column_2", "map", "column_3", "column_4", "map_2", "map_3")


@pytest.mark.parametrize(("dtype", "tolerance"), [("f64", 1e-7), ("f32", 2e-4)])
@pytest.mark.parametrize("target", TARGETS)
def test_values_gradients_and_statistics(target: str, dtype: Any, tolerance: float) -> None:
    random, close = np.random.default_rng(0), partial(np.testing.assert_allclose, rtol=tolerance)
    numpy_dtype = {"f32": "f4", "f64": "f8"}[dtype]
    x = random.standard_normal((BATCH, INPUTS)).astype(numpy_dtype)
    y = random.standard_normal((BATCH, COLUMNS)).astype(numpy_dtype)
    program = noeira.compile(Fork, seed=1, target=target, dtype=dtype, **OPTIONS)
    tensors = {path: array.astype("f8") for path, array in program.tensors.items()}
    close(program.forward(x), result(tensors, x, kept=True), atol=tolerance)
    close(program.gradients(x, y), loss(tensors, x, y))
    for path in program.params:
        found = program.module.parameter(path).grd
        close(found, slopes(tensors, path, x, y), atol=tolerance)
    close(program.step(x, y), loss(tensors, x, y))
    for name in "ab":
        for kind, value in zip(("mean", "variance"), statistics(tensors, x, name), strict=True):
            path = f"norms.{kind}_{name}"
            kept = tensors[path] + (value - tensors[path]) * MOMENTUM
            close(program.tensors[path], kept, atol=tolerance)
    tensors = {path: array.astype("f8") for path, array in program.tensors.items()}
    close(program.forward(x), result(tensors, x, kept=True), atol=tolerance)
