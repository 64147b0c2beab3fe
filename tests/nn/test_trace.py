"""trace: a type becomes a graph; its names, groups, origins, initial values, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import stages
from traced import lines

import noeira
from noeira.compiler import run_passes
from noeira.errors import CompositionError, ShapeError
from noeira.ir.graph import Value
from noeira.ir.text.printer import graph_text
from noeira.ir.verify import verify
from noeira.job import job_of
from noeira.nn import (
    MSE,
    Accuracy,
    Adam,
    Buffer,
    CrossEntropy,
    Deterministic,
    Fused,
    Kaiming,
    Linear,
    LinearReLU,
    Module,
    Normal,
    Param,
    ReLU,
    Residual,
    Scope,
    Sequential,
    Tanh,
    TopK,
    Xavier,
    size,
)
from noeira.tracing import trace


class AddAndTanh(Module):
    """Two inputs, two outputs."""

    signature = "(A), (A) -> (A), (A)"

    @classmethod
    def trace(cls, scope: Scope, a: Value, b: Value) -> tuple[Value, Value]:
        return scope.emit("add", a, b), scope.emit("tanh", b)


class Shift(Module):
    """A parameter, and a state that outlives the call; in training the state moves."""

    N = size()
    shift = Param("N", init="bias")
    seen = Buffer("N")
    signature = "(N) -> (N)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        y = scope.emit("add", x, scope.param("shift"))
        if scope.phase == "train":
            scope.update("seen", scope.emit("sum", y, axes=(0,)))
        return y


def test_a_network(golden: Any):
    net = Sequential[LinearReLU[5, 4], Residual[Tanh], Linear[4, 3]]
    graph = trace(net, batch=2, loss=CrossEntropy, metrics=(Accuracy, TopK[2]), entry="evaluate")
    golden(graph_text(verify(graph)))


def test_one_input_is_x_and_several_are_numbered():
    assert lines(trace(Linear[3, 2], batch=7))[0] == "input %x: f32[7, 3]"
    graph = trace(AddAndTanh, batch=2, input=((3,), (3,)), entry="both")
    assert graph.name == "addandtanh.both"
    assert lines(graph) == [
        "input %x0: f32[2, 3]",
        "input %x1: f32[2, 3]",
        "%add = add(%x0, %x1) : f32[2, 3]   from net: AddAndTanh by trace",
        "%tanh = tanh(%x1) : f32[2, 3]   from net: AddAndTanh by trace",
        "return %add, %tanh",
    ]


def test_groups_and_origins():
    net = Sequential[Linear[4, 4], Fused[Linear[4, 4], Tanh, ReLU]]
    graph = trace(net)
    assert [(g.path, g.type) for g in graph.groups] == [("1", "Fused[Linear[4, 4], Tanh, ReLU]")]
    assert [(n.group, n.origin.path, n.origin.type, n.origin.by) for n in graph.nodes] == [
        ("", "0", "Linear[4, 4]", "trace"),
        ("1", "1", "Linear[4, 4]", "trace"),
        ("1", "1", "Tanh", "trace"),
        ("1", "1", "ReLU", "trace"),
    ]


def test_parameters_are_members_of_one_flat_state_decayed_first():
    graph = trace(Sequential[Linear[5, 4], Linear[4, 3]], dtype="f64")
    (layout,), state = graph.layouts, graph.state("params")
    assert [(m.name, m.shape, m.offset) for m in layout.members] == [
        ("0.weight", (5, 4), 0),
        ("1.weight", (4, 3), 32),
        ("0.bias", (4,), 64),
        ("1.bias", (3,), 96),
    ]
    assert str(state.value.type) == "f64 @net"
    assert {m.type.dtype for m in state.members} == {"f64"}


@pytest.mark.parametrize(
    ("init", "weight"),
    [
        (Kaiming, "uniform(-1.4142135623730951, 1.4142135623730951)"),
        (Xavier(), "uniform(-1.0, 1.0)"),
        (Normal[0.0, 0.02], "normal(0.0, 0.02)"),
        (Deterministic, "deterministic()"),
    ],
)
def test_initial_values(init: Any, weight: str):
    graph = trace(Linear[3, 3], init=init)
    assert lines(graph)[2:4] == [f"initial %weight = {weight}", "initial %bias = zero()"]


def test_states_and_phases():
    train, evaluate = (trace(Sequential[Shift[3]], batch=2, phase=p) for p in ("train", "eval"))
    assert "state %buffers: f32 @buffers members" in lines(train)
    assert "initial %0.seen = zero()" in lines(train)
    pack = 'pack(%0.sum) {layout = "buffers", size = 32, offsets = [0]}'
    assert lines(train)[-3:] == [
        f"%buffers.next = {pack} : f32 @buffers   from net: buffers side by side by trace",
        "update %buffers = %buffers.next",
        "return %0.add",
    ]
    assert evaluate.updates == ()
    assert [s.value.name for s in evaluate.states] == ["params", "buffers"]
    assert "%0.shift = zero()" in " ".join(lines(evaluate))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"net": Linear[3, 4], "input": (7, 4)},
            ShapeError,
            "Linear[3, 4] takes (*, 3), not (7, 4)",
        ),
        (
            {"net": AddAndTanh},
            CompositionError,
            "A of (A) can be anything; give the shape of a sample, such as input=((32,), (32,))",
        ),
        (
            {"net": AddAndTanh, "input": (3,)},
            CompositionError,
            "takes 2 inputs, but input gives 1 shape",
        ),
        ({"net": AddAndTanh, "input": ((3,), (4,))}, ShapeError, "takes (A), (A), not (3,), (4,)"),
        ({"net": AddAndTanh, "input": [(3,), (4,)]}, ShapeError, "takes (A), (A), not (3,), (4,)"),
        (
            {"net": Linear[3, 4], "input": ((3,), (3,))},
            CompositionError,
            "takes 1 input, but input gives 2 shapes",
        ),
        (
            {"net": Linear[3, 4], "input": (0, 3)},
            CompositionError,
            "an axis has at least one element",
        ),
        (
            {"net": AddAndTanh, "input": ((3,), (3,)), "loss": CrossEntropy},
            CompositionError,
            "AddAndTanh gives 2 outputs, (3), (3), and CrossEntropy takes (*, C), (*: i32 < C): a "
            "loss takes every output, then the targets; for a loss for each output write Losses[",
        ),
        (
            {"net": Linear[3, 4], "loss": MSE, "metrics": (Accuracy,)},
            CompositionError,
            "one target cannot be both",
        ),
        (
            {"net": Linear[3, 4], "loss": CrossEntropy, "metrics": (TopK[9],)},
            ShapeError,
            "k = 9, but f32[1, 4] has 4",
        ),
    ],
)
def test_what_is_refused(options: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error) as caught:
        trace(**options)
    assert message in str(caught.value)


def test_the_target_is_what_the_loss_takes():
    assert lines(trace(Linear[3, 4], batch=2, loss=CrossEntropy))[1] == "input %target: i32[2] < 4"
    assert (
        lines(trace(Linear[3, 4], batch=2, loss=MSE, dtype="f64"))[1] == "input %target: f64[2, 4]"
    )
    rows = trace(Linear[3, 4], batch=2, input=(5, 3), loss=CrossEntropy)
    assert lines(rows)[:2] == ["input %x: f32[2, 5, 3]", "input %target: i32[2, 5] < 4"]


def test_metrics_are_numbered():
    graph = trace(Linear[3, 4], loss=CrossEntropy, metrics=(Accuracy, TopK[2], TopK[3]))
    assert [n.origin.path for n in graph.nodes] == [
        "net",
        "loss",
        "metric.0",
        "metric.1",
        "metric.2",
        "net",
    ]
    assert [v.name for v in graph.outputs] == [
        "loss",
        *("metric.0.sum", "metric.0.count"),
        *("metric.1.sum", "metric.1.count"),
        *("metric.2.sum", "metric.2.count"),
    ]


def test_a_network_without_parameters_runs_forward_only() -> None:
    with pytest.raises(noeira.OptionError, match="has no parameters, so there is nothing"):
        noeira.compile(ReLU, loss=MSE, optimizer=Adam(), input=(3,))
    program = noeira.compile(ReLU, loss=MSE, input=(3,))
    assert list(program.prepare().entries) == ["forward"]


class Sloppy(Module):
    """What `how` does with its state."""

    gain = Param("1", init="bias")
    mean = Buffer("1")
    signature = "(1) -> (1)"
    how: Any = None

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        cls.how(scope, x)
        return scope.emit("relu", x)


def twice(scope: Scope, x: Value) -> None:
    """Two updates of one state."""
    for _ in range(2):
        scope.update("mean", scope.emit("sum", x, axes=(0,)))


@pytest.mark.parametrize(
    ("how", "phase", "message"),
    [
        (lambda s, x: s.update("mena", x), "train", "has no parameter mena; it has gain, mean"),
        (lambda s, x: s.update("gain", x), "train", "gain is a parameter, which the optimizer up"),
        (lambda s, x: s.update("mean", x), "train", "of mean is f32[1, 1], but the buffer is f32["),
        (lambda s, x: s.update("mean", 0.0), "train", "of mean is 0.0, not a value of the graph"),
        (lambda s, x: s.update("mean", Sloppy.mean), "train", "is the declaration of mean (write"),
        (twice, "train", "the update of mean: it is updated already, and a step updates a buffer "),
        (
            lambda s, x: s.update("mean", x),
            "eval",
            'the update of mean is for training: emit it where scope.phase is "train"',
        ),
    ],
)
def test_what_cannot_be_updated(how: Any, phase: Any, message: str, monkeypatch: Any):
    monkeypatch.setattr(Sloppy, "how", staticmethod(how))
    with pytest.raises(CompositionError) as caught:
        trace(Sequential[Sloppy], phase=phase)
    assert "Sloppy" in str(caught.value) and message in str(caught.value)


def test_a_fused_type_may_hold_states_and_random_numbers():
    class Drawing(Module):
        seen = Buffer("3")
        signature = "(3) -> (3)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            if scope.phase == "train":
                scope.update("seen", scope.emit("sum", x, axes=(0,)))
                scope.random()
            return scope.emit("relu", x)

    graph = trace(Fused[Linear[2, 3], Drawing], loss=MSE)
    assert [(n.op.name, n.group) for n in graph.nodes][:4] == [
        ("linear", "net"),
        ("sum", "net"),
        ("constant", "net"),
        ("relu", "net"),
    ]
    job = job_of(Fused[Linear[2, 3], Drawing], batch=2, loss=MSE, optimizer=Adam())
    # What only an update needs stands beside the kernel that does not take it.
    fused = stages(job.step())[-1].graph
    assert sorted(n.op.name for n in fused.nodes if n.group == "net") == ["fused", "sum"]


def test_a_dtype_that_there_is_not():
    with pytest.raises(
        CompositionError, match="Buffer: there is no dtype 'float32'; there are f32"
    ):
        Buffer("3", dtype="float32")
    assert repr(Shift.seen) == "seen = Buffer('N')"


class Again(Module):
    """One fused layer, twice."""

    signature = "(3) -> (3)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("a", LinearReLU[3, 3]),)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        for _ in range(2):
            x = scope.child("a", LinearReLU[3, 3]).run(x)
        return x


def test_a_fused_type_that_is_run_twice_is_two_kernels():
    graph = run_passes(job_of(Again, loss=MSE, batch=2).gradients()).graph
    assert [group.path for group in graph.groups] == ["a", "a.1"]
    assert sum(node.op.name == "fused" and node.origin.by == "trace" for node in graph.nodes) == 2
    x, y = np.ones((2, 3)), np.zeros((2, 3))
    program = noeira.compile(Again, loss=MSE, batch=2, dtype="f64", target="reference")
    program.gradients(x, y)
    weight, gradient = program.params["a.weight"], program.module.parameter("a.weight").grd.copy()
    weight[0, 1] += 1e-5
    above = program.gradients(x, y)
    weight[0, 1] -= 2e-5
    assert (above - program.gradients(x, y)) / 2e-5 == pytest.approx(gradient[0, 1], abs=1e-8)
