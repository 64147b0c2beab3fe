"""Several outputs, targets and losses: what they are called, how they are given and trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.errors import CompositionError, ShapeError
from noeira.ir.graph import Value
from noeira.nn import (
    MSE,
    SGD,
    Accuracy,
    CrossEntropy,
    Linear,
    Loss,
    Losses,
    Metric,
    Module,
    Param,
    Scope,
    Sequential,
    SoftCrossEntropy,
    TopK,
)
from noeira.tracing import trace


class Two(Module):
    """Two heads."""

    left = Param("4", "3")
    right = Param("4", "5")
    signature = "(4) -> (3), (5)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        return tuple(scope.emit("matmul", x, scope.param(name)) for name in ("left", "right"))  # type: ignore[return-value]


@pytest.mark.parametrize("loss", [CrossEntropy, SoftCrossEntropy])
def test_one_class_is_none(loss: type[Loss]) -> None:
    with pytest.raises(CompositionError, match="one number a row: for numbers write loss=MSE"):
        noeira.compile(Linear[4, 1], loss=loss, optimizer=SGD)


class Squares(Loss):
    """The sum of two squared errors."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit(
            "add", *(scope.emit("mse", prediction, target, hint="loss") for _ in range(2))
        )


class Given(Loss):
    """What the network gives is the loss already: a number, and nothing emitted."""

    signature = "(), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("reshape", scope.emit("sum", prediction, hint="sum"), shape=())


class Error(Metric):
    """The summed error of the left head, the hits emitted under the name of the count."""

    signature = "(3), (5), (3), (: i32 < 5) -> (), ()"

    @classmethod
    def trace(cls, scope: Scope, left: Value, right: Value, y: Value, z: Value) -> Any:
        _, count = scope.emit("top_k", right, z, k=1, hint="count")
        return scope.emit("sum", scope.emit("subtract", left, y)), count


class NoPair(Metric):
    """One number."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("mse", prediction, target)


BOTH = Losses[MSE, CrossEntropy]


def data(rows: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Inputs and two targets."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)).astype("f4")
    return x, (random.standard_normal((rows, 3)).astype("f4"), random.integers(0, 5, rows))


def test_the_signature_of_several_losses() -> None:
    assert str(BOTH.shapes()) == "(*), (*, C), (*), (*: i32 < C) -> ()"
    assert repr(BOTH) == "Losses[MSE, CrossEntropy]" and Losses[MSE, CrossEntropy] is BOTH
    assert str(Losses[CrossEntropy, CrossEntropy].shapes()).startswith(
        "(*, C), (*, C2), (*: i32 < C)"
    )


def test_several_targets_are_numbered_and_the_losses_added() -> None:
    graph = trace(Two, loss=BOTH, batch=2)
    assert [f"{i.value}: {i.value.type}" for i in graph.inputs] == [
        "%x: f32[2, 4]",
        "%target0: f32[2, 3]",
        "%target1: i32[2]",
    ]
    (add,) = [n for n in graph.nodes if n.op.name == "add"]
    assert add.outputs == graph.outputs and str(add.outputs[0]) == "%loss"
    assert [v.name for v in add.inputs] == ["loss.0.mse", "loss.1.cross_entropy"]


def test_the_loss_is_called_loss_and_costs_no_copy() -> None:
    for loss in (Squares, CrossEntropy, MSE):
        graph = trace(Linear[4, 3], loss=loss)
        assert [v.name for v in graph.outputs] == ["loss"]
        assert "copy" not in [n.op.name for n in graph.nodes]
    graph = trace(Linear[4, 3], loss=Squares)
    assert [n.outputs[0].name for n in graph.nodes][1:4] == ["loss.loss", "loss.loss.1", "loss"]
    x, y = np.ones((1, 4), np.float32), np.ones((1, 3), np.float32)
    program = noeira.compile(Linear[4, 3], loss=Squares, target="reference")
    twice = noeira.compile(Linear[4, 3], loss=MSE, target="reference")
    assert program.gradients(x, y) == pytest.approx(2 * twice.gradients(x, y))


def test_results_make_way_for_the_names_of_programs() -> None:
    graph = trace(Two, loss=BOTH, metrics=(Error,), phase="eval")
    names = [v.name for v in graph.outputs]
    assert names == ["loss", "metric.0.sum", "metric.0.count"]
    made = {v.name: n.op.name for n in graph.nodes for v in n.outputs}
    assert [made[name] for name in names] == ["add", "sum", "top_k"]


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_network_of_several_outputs_is_trained(target: str) -> None:
    x, y = data(11)
    program = noeira.compile(
        Two, loss=BOTH, optimizer=SGD(lr=0.1), batch=5, target=target, metrics=[Error]
    )
    left, right = (x[:5] @ program.params[name] for name in ("left", "right"))
    rows = np.log(np.exp(right).sum(1)) - right[np.arange(5), y[1][:5]]
    expected = ((left - y[0][:5]) ** 2).mean() + rows.mean()
    assert program.gradients(x[:5], (y[0][:5], y[1][:5])) == pytest.approx(expected, rel=1e-5)
    first = program.step(x[:5], (y[0][:5], y[1][:5]))
    program.load(x, y, evaluation=(x, y))
    program.steps(60)
    found = program.evaluate()
    assert found["loss"] < first
    error = (program.forward(x)[0] - y[0]).sum() / 11
    assert found["error"] == pytest.approx(error, rel=1e-3, abs=1e-4)
    with pytest.raises(
        ShapeError, match=r"the loss takes 2 targets, got 1: write a tuple \(y0, y1"
    ):
        program.step(x[:5], y[0][:5])
    with pytest.raises(ShapeError, match="y1 has 10 rows, x has 11"):
        program.load(x, (y[0], y[1][:10]))


def test_a_trainer_takes_several_targets() -> None:
    x, y = data(20)
    trainer = noeira.Trainer(Two, loss=BOTH, batch=5)
    first, *_, last = trainer.fit((x, y), (x, y), epochs=8, progress=False).epochs
    assert last.loss < first.loss and not trainer.program.metrics


def test_a_loss_without_targets() -> None:
    graph = trace(Two, loss=None, metrics=())
    assert [i.value.name for i in graph.inputs] == ["x"]

    class Apart(Module):
        weight = Param("4", "3")
        signature = "(4) -> (3), (3)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
            y = scope.emit("matmul", x, scope.param("weight"))
            return y, scope.emit("tanh", y)

    x = data(5)[0]
    program = noeira.compile(Apart, loss=MSE, batch=5, target="reference")
    y = x @ program.params["weight"]
    assert program.gradients(x, ()) == pytest.approx(((y - np.tanh(y)) ** 2).mean(), rel=1e-5)
    with pytest.raises(ShapeError, match="the loss takes 0 targets, got 1"):
        program.gradients(x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"net": Linear[3, 4], "loss": MSE, "metrics": [Accuracy]}, "one target cannot be both"),
        ({"net": Linear[3, 4], "loss": CrossEntropy, "metrics": [TopK[9]]}, "has 4 classes"),
        ({"net": Two, "loss": BOTH, "metrics": [Accuracy]}, "a metric takes every output, then"),
        ({"net": Two, "loss": Losses[MSE, MSE, MSE]}, "MSE] are 3 losses, and there is to be one"),
        (
            {"net": Linear[3, 4], "loss": MSE, "metrics": [NoPair]},
            "a metric gives two numbers, a s",
        ),
    ],
)
def test_what_does_not_fit_is_found_when_it_is_compiled(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((CompositionError, ShapeError)) as caught:
        noeira.compile(target="reference", **options)
    assert message in str(caught.value)


class Narrow(Metric):
    """A sum in 16 bits."""

    signature = "(*), (*) -> (), ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        half = scope.emit("cast", scope.emit("subtract", prediction, target), dtype="bf16")
        return scope.emit("sum", half), scope.emit("constant", value=1.0)


class NarrowLoss(Loss):
    """The mean squared error in 16 bits, given as a tuple of one."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value]:
        return (scope.emit("cast", scope.emit("mse", prediction, target), dtype="bf16"),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metrics": [Narrow]},
            "Narrow at metric.0: a metric gives numbers in f32, f64 or i64, its trace gave "
            "bf16[], f32[]: write scope.emit(",
        ),
        (
            {"loss": NarrowLoss},
            "NarrowLoss at loss: a loss gives numbers in f32 or f64, its trace gave bf16[]: write",
        ),
    ],
)
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_numbers_of_16_bits_are_not_added_up(
    options: dict[str, Any], message: str, target: str
) -> None:
    given: dict[str, Any] = {"loss": MSE, "target": target} | options
    with pytest.raises(CompositionError) as caught:
        noeira.compile(Linear[3, 4], **given)
    assert str(caught.value).startswith(message)


def test_a_tuple_of_one_is_its_value() -> None:
    class Single(Linear[4, 3]):
        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Any:
            return (super().trace(scope, x),)

    class One(MSE):
        @classmethod
        def trace(cls, scope: Scope, prediction: Value, target: Value) -> Any:
            return (super().trace(scope, prediction, target),)

    graph = trace(Sequential[Single, Linear[3, 2]], loss=One, phase="eval")
    assert [node.op.name for node in graph.nodes] == ["linear", "linear", "mse"]
    assert [v.name for v in graph.outputs] == ["loss"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((MSE, Linear[3, 4]), "loss 1 must be a loss; Linear[3, 4] is a layer"),
        ((Accuracy,), "loss 0 must be a loss; Accuracy is a metric"),
        ((MSE, "MSE"), "loss 1 must be a module type: write MSE without quotes"),
    ],
)
def test_losses_are_made_of_losses(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(CompositionError) as caught:
        Losses[parts]
    assert message in str(caught.value)
