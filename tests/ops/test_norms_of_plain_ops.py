"""Norms of images that are made of sums, views and element-wise ops: one call each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.compiler import run_passes
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.random import constant
from noeira.job import job_of
from noeira.nn import (
    MSE,
    SGD,
    Fused,
    Linear,
    Module,
    Param,
    Scope,
    Sequential,
    Tanh,
    size,
)

BATCH, IMAGE = 3, (4, 5, 3)
TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]


def normalized(scope: Scope, x: Value, mean: Any) -> Value:
    """x without its mean, times a number that shrinks with its variance."""
    apart = scope.emit("subtract", x, mean(x))
    slope = scope.emit("sigmoid", mean(scope.emit("multiply", apart, apart)))
    return scope.emit("multiply", apart, slope)


class ChannelNorm(Module):
    """Over height and width, and in training over the batch; a gain over channels, of which the
    sigmoid is taken.
    """

    C = size()
    gain = Param("C", "1", "1", init=constant(1.5))
    signature = "(C, H, W) -> (C, H, W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, channels, height, width = x.type.shape
        scale = 1 / (batch * height * width)

        def mean(value: Value) -> Value:
            if scope.phase == "eval":
                alone = scope.emit("sum", value, axes=(2, 3), scale=1 / (height * width))
                return scope.emit("reshape", alone, shape=(batch, channels, 1, 1))
            rows = scope.emit("sum", value, axes=(2, 3))
            found = scope.emit("sum", rows, axes=(0,), scale=scale)
            return scope.emit("reshape", found, shape=(channels, 1, 1))

        gain = scope.emit("sigmoid", scope.param("gain"))
        return scope.emit("multiply", normalized(scope, x, mean), gain)


class GroupNorm(Module):
    """Over two halves of the channels of each sample."""

    C = size()
    signature = "(C, H, W) -> (C, H, W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, channels, height, width = x.type.shape
        halves = (batch, 2, channels // 2, height, width)
        scale = 2 / (channels * height * width)

        def mean(value: Value) -> Value:
            found = scope.emit("sum", value, axes=(2, 3, 4), scale=scale)
            return scope.emit("reshape", found, shape=(batch, 2, 1, 1, 1))

        y = normalized(scope, scope.emit("reshape", x, shape=halves), mean)
        return scope.emit("reshape", y, shape=x.type.shape)


class Flat(Module):
    """An image as a row."""

    signature = "(C, H, W) -> (C*H*W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("reshape", x, shape=(x.type.shape[0], x.type.size // x.type.shape[0]))


Joined = Sequential[
    Fused[ChannelNorm[4], Tanh], Fused[Tanh, GroupNorm[4], Tanh], Flat, Linear[60, 2]
]
Apart = Sequential[
    Sequential[ChannelNorm[4], Tanh], Sequential[Tanh, GroupNorm[4], Tanh], Flat, Linear[60, 2]
]


def step_of(net: Any) -> ComputeGraph:
    """The graph of a training step after its passes."""
    options: dict[str, Any] = {"batch": BATCH, "loss": MSE, "optimizer": SGD(lr=0.1)}
    return run_passes(job_of(net, input=IMAGE, **options).step()).graph


def test_each_norm_is_one_call() -> None:
    calls = [n for n in step_of(Joined).launching() if n.origin.by == "trace" and n.group]
    assert [node.group for node in calls] == ["0", "1"]
    assert all("reshape" in [part.op.name for part in node.body] for node in calls)


@pytest.mark.parametrize("target", TARGETS)
def test_bits_are_those_of_plain_calls(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2 * BATCH, *IMAGE)).astype("f4")
    y = random.standard_normal((2 * BATCH, 2)).astype("f4")
    found = dict[str, list[bytes]]()
    for threads in ("1", "2", "3") if target == "cpu" else ("1",):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        for name, net in (("joined", Joined), ("apart", Apart)):
            options: dict[str, Any] = {"loss": MSE, "optimizer": SGD(lr=0.1), "input": IMAGE}
            program = noeira.compile(net, batch=BATCH, seed=1, target=target, **options)
            losses = [program.step(x[i : i + BATCH], y[i : i + BATCH]) for i in (0, BATCH)]
            arrays = [np.array(losses), program.forward(x)]
            arrays += [program.store.arrays[name] for name in ("params", "gradients")]
            found[f"{name} {threads}"] = [array.tobytes() for array in arrays]
    (first, *others) = found.values()
    assert all(other == first for other in others), list(found)
