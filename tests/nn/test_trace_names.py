"""Names that trace gives, and those that modules may not."""

from __future__ import annotations

import pytest
from graphs import stages
from traced import lines

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.job import job_of
from noeira.nn import (
    MSE,
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
