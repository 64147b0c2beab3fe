"""Layers that draw random numbers: with and without a loss, in training and in evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.graph import Value
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.random import EVALUATION_STREAM
from noeira.ir.scalar import Expr, call, var
from noeira.nn import MSE, SGD, Fused, Linear, Module, Scope, Sequential


class Sample(Elementwise):
    """x + u, u in [0, 1)"""

    name, operands = "own_sample", ("x", "seed", "tick", "stream")
    numbers = ("seed", "tick", "stream")

    def expression(self, attrs: Any) -> Expr:
        return var("x") + call("uniform", var("seed"), var("tick"), var("stream"))


class Sampled(Module):
    """A layer that draws in both phases."""

    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("own_sample", x, *scope.random())


Net = Sequential[Linear[3, 2], Sampled, Sampled]
X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)


@pytest.mark.parametrize(("phase", "count"), [("train", "tick"), ("eval", "draws")])
@pytest.mark.parametrize("loss", [None, MSE])
def test_what_numbers_follow_from_is_declared(phase: Any, count: str, loss: Any) -> None:
    graph = noeira.trace(Net, phase=phase, loss=loss)
    assert [s.value.name for s in graph.states] == ["params", "seed", count]
    assert [(u.state.name, u.new.name) for u in graph.updates] == [(count, f"{count}.next")]
    first = 0 if phase == "train" else EVALUATION_STREAM
    streams = [n.attrs.value for n in graph.nodes if n.op.name == "constant"]  # type: ignore[attr-defined]
    assert streams == [first, first + 1]


def test_what_draws_nothing_counts_nothing() -> None:
    for phase in ("train", "eval"):
        graph = noeira.trace(Linear[3, 2], phase=phase)
        assert [s.value.name for s in graph.states] == ["params"] and not graph.updates


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_each_call_of_forward_draws_others(target: str) -> None:
    program = noeira.compile(Net, batch=2, target=target)
    first, second = program.forward(X[:2]), program.forward(X[:2])
    assert not np.array_equal(first, second) and not np.array_equal(first[0], first[1])
    again = noeira.compile(Net, batch=2, target=target).forward(X)
    assert np.array_equal(again, np.concatenate([first, second]))
    fused = Sequential[Fused[Linear[3, 2], Sampled], Sampled]
    made = noeira.compile(fused, batch=2, target=target).forward(X)
    assert np.array_equal(made, again)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_evaluation_changes_nothing_in_training(target: str) -> None:
    losses = list[list[float]]()
    for looks in (0, 3):
        options = {"loss": MSE, "optimizer": SGD(lr=0.1), "batch": 2, "metrics": []}
        program = noeira.compile(Net, target=target, **options)  # type: ignore[arg-type]
        program.load(X, Y, evaluation=(X, Y))
        losses.append([])
        for _ in range(3):
            seen = {program.evaluate()["loss"] for _ in range(looks)}
            assert len(seen) == looks
            program.forward(X)
            losses[-1].append(program.steps(2))
    assert losses[0] == losses[1]
