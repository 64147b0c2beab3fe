"""What trace returns: values that the caller's memory can hold, whose names last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import stages
from made_modules import MeanOutput
from traced import lines

import noeira
from noeira.ir.graph import Value
from noeira.ir.interpret import interpret
from noeira.job import job_of
from noeira.nn import SGD, Buffer, Linear, Loss, Module, Scope
from noeira.tracing import trace


class Echo(Module):
    """Gives what it takes, a view, and one value twice."""

    signature = "(A) -> (A), (A, 1), (A), (A)"

    @classmethod
    def trace(cls, scope: Scope, a: Value) -> tuple[Value, ...]:
        y = scope.emit("relu", a)
        return a, scope.emit("reshape", a, shape=(*a.type.shape, 1)), y, y


class Latest(Module):
    """Gives what it also keeps."""

    last = Buffer("1", "3", dtype="f32")
    signature = "(3) -> (3)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        y = scope.emit("relu", x)
        if scope.phase == "train":
            scope.update("last", y)
        return y


class Level(Loss):
    """A number that follows from nothing."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("constant", value=2.5)


def test_outputs_may_be_what_is_given_or_a_view_or_the_same_twice():
    graph = trace(Echo, input=(3,))
    assert lines(graph)[-4:] == [
        "%x.copy = copy(%x) : f32[1, 3]   from net: output by trace",
        "%reshape.copy = copy(%reshape) : f32[1, 3, 1]   from net: output by trace",
        "%relu.copy = copy(%relu) : f32[1, 3]   from net: output by trace",
        "return %x.copy, %reshape.copy, %relu, %relu.copy",
    ]
    x = np.array([[-1, 0, 2]], np.float32)
    values = interpret(graph, {"x": x})
    assert [values[v.name].tolist() for v in graph.outputs[::2]] == [x.tolist(), [[0, 0, 2]]]


def test_an_output_may_update_a_state():
    assert lines(trace(Latest))[-2:] == ["update %last = %relu", "return %relu.copy"]


@pytest.mark.parametrize("net", [Echo, Latest, Linear[3, 2]])
def test_outputs_keep_their_names_in_all_passes(net: Any):
    options: dict[str, Any] = {"input": (3,)} if net is Echo else {}
    if net is not Echo:
        options = {"loss": Level, "metrics": [MeanOutput]}
    if net.parameters():
        options["optimizer"] = SGD
    job = job_of(net, batch=2, **options)
    for name, make in job.makers_with_data.items():
        traced, *_, last = stages(make().dump)
        names = [value.name for value in traced.graph.outputs]
        assert [value.name for value in last.graph.outputs] == names, name
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_loss_and_the_count_of_a_metric_may_be_literals(target: str):
    program = noeira.compile(
        Linear[3, 2], batch=2, loss=Level, metrics=[MeanOutput], optimizer=SGD, target=target
    )
    x = np.ones((5, 3), np.float32)
    y = np.ones((5, 2), np.float32)
    assert program.gradients(x[:2], y[:2]) == program.step(x[:2], y[:2]) == 2.5
    program.load(evaluation=(x, y))
    mean = float(program.forward(x).mean())
    assert program.evaluate() == {"loss": 2.5, "mean_output": pytest.approx(mean)}
