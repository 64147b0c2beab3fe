"""Names that trace gives, and those that modules may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import stages
from made_modules import MeanOutput
from traced import lines

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.job import job_of
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    CrossEntropy,
    Linear,
    LinearReLU,
    Loss,
    Module,
    Param,
    Scope,
    Sequential,
    size,
)
from noeira.tracing import trace


class HalfSquare(Loss):
    """Half the squared error; its result has a name of its own."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("scale", scope.emit("mse", prediction, target), factor=0.5)


def test_a_loss_is_returned_as_loss_whatever_it_calls_its_result():
    job = job_of(Linear[3, 2], batch=2, loss=HalfSquare, optimizer=Adam())
    assert lines(job.evaluation(2).entries[0].dump.graph)[-3:] == [
        "%loss.mse = mse(%linear, %target) : f32[]   from loss: HalfSquare by trace",
        "%loss = scale(%loss.mse) {factor = 0.5} : f32[]   from loss: HalfSquare by trace",
        "return %loss",
    ]
    assert stages(job.step())[-1].graph.outputs[0].name == "loss"


@pytest.mark.parametrize("name", ["x", "params", "target"])
def test_a_parameter_may_not_have_the_name_of_an_input_or_state(name: str):
    signature = "(N) -> (N)"
    net = type(Module)(
        "Clash", (Module,), {"N": size(), name: Param("N", init="bias"), "signature": signature}
    )
    net.trace = classmethod(lambda cls, scope, x: scope.emit("add", x, scope.param(name)))  # type: ignore[attr-defined]
    with pytest.raises(CompositionError, match=f"cannot be called {name}, which is a value of"):
        trace(net[3], loss=MSE)  # type: ignore[index]
    inside = trace(Sequential[net[3]], loss=MSE)  # type: ignore[index]
    assert inside.states[0].members[0].name == f"0.{name}"


def test_nothing_depends_on_what_was_traced_before():
    net = Sequential[LinearReLU[5, 4], Linear[4, 3]]
    assert trace(net, loss=CrossEntropy) == trace(net, loss=CrossEntropy)


def test_a_parameter_of_the_network_itself_may_not_take_the_name_of_a_state() -> None:
    class Taken(noeira.nn.Module):
        N = noeira.nn.size()
        lr = noeira.nn.Param("N", "N")
        signature = "(*, N) -> (*, N)"

        @classmethod
        def trace(cls, scope, x):
            return scope.emit("linear", x, scope.param("lr"))

    with pytest.raises(noeira.CompositionError, match="cannot be called lr, which is a value of"):
        noeira.compile(Taken[3], batch=1)
    assert noeira.compile(Sequential[Taken[3], Taken[3]], batch=1).params["0.lr"].shape == (3, 3)


def test_a_module_may_not_call_a_result_like_a_value_of_every_program() -> None:
    class Ok(Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return scope.emit("relu", scope.emit("tanh", x, hint="ok"), hint="ok")

    with pytest.raises(CompositionError, match="Ok at net calls a result ok, which is a value of"):
        trace(Ok, input=(3,))
    # Elsewhere a hint is a name at that place.
    names = [n.outputs[0].name for n in trace(Sequential[Linear[3, 2], Ok]).nodes]
    assert names == ["0.linear", "1.ok", "1.ok.1"]


def with_inside(path: str, hint: str = "") -> Any:
    """A network with a bias at this path, whose module calls the sum that it gives `hint`."""
    *names, last = path.split(".")

    def shifted(cls: Any, scope: Scope, x: Value) -> Value:
        return scope.emit("add", x, scope.param(last), hint=hint)

    def run_child(cls: Any, scope: Scope, x: Value) -> Value:
        return scope.child(*cls.inside[0]).run(x)

    body = {"trace": classmethod(shifted), last: Param("3", init="bias"), "signature": "(3) -> (3)"}
    made = type("Inner", (Module,), body)
    for name in reversed(names):
        children = classmethod(lambda cls, child=(name, made): (child,))
        body = {"trace": classmethod(run_child), "children": children, "signature": "(3) -> (3)"}
        made = type("Outer", (Module,), body)
    return made


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("lr", "a value of every program"),
        ("data.x", "a value of every program"),
        ("data.target0", "a value of every program"),
        ("metric.0.count", "a value of every program"),
        ("total.loss", "a value of every program"),
        ("adam.m", "a state of the optimizer"),
        ("adam.step", "a state of the optimizer"),
    ],
)
def test_no_tensor_takes_the_name_of_a_state_of_a_pass(path: str, what: str) -> None:
    net, options = with_inside(path), {"loss": MSE, "batch": 2, "target": "reference"}
    with pytest.raises(CompositionError, match=f" cannot be called {path}, which is {what}; give"):
        noeira.compile(net, optimizer=Adam, **options)


@pytest.mark.parametrize("path", ["data.weight", "metric.sum", "totals.loss", "adam.m", "adam.w"])
def test_other_tensors_of_such_modules_are_free(path: str) -> None:
    net, x = with_inside(path), np.ones((4, 3), np.float32)
    optimizer = Adam if path != "adam.m" else SGD(momentum=0.9)
    program = noeira.compile(net, loss=MSE, optimizer=optimizer, batch=2, target="reference")
    program.load(x, 2 * x, evaluation=(x, 2 * x))
    assert program.steps(2) > program.evaluate()["loss"] > 0
    assert program.params[path].shape == (3,)


def test_a_result_called_like_that_of_a_metric_makes_way() -> None:
    net, x = with_inside("metric.0.w", hint="sum"), np.ones((4, 3), np.float32)
    options = {"loss": MSE, "metrics": [MeanOutput], "batch": 2, "target": "reference"}
    program = noeira.compile(net, **options)
    program.load(evaluation=(x, x))
    assert program.evaluate() == {"loss": 0.0, "mean_output": 1.0}


def test_no_hint_takes_the_name_of_a_state_of_the_optimizer() -> None:
    net = with_inside("sgd.w", hint="m")
    said = "calls a result sgd.m, which is a state of the optimizer; give another hint"
    with pytest.raises(CompositionError, match=said):
        noeira.compile(net, loss=MSE, optimizer=SGD(momentum=0.9), batch=2)
    noeira.compile(net, loss=MSE, optimizer=Adam, batch=2, target="reference")
