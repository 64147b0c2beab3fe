"""The gradient of a module in its input as part of a network, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import batch_norm
import numpy as np
import pytest
from critics import APART, FUSED, PENALTIES, ROWS, data, differences, gradients_of, program_of
from made_modules import module
from needs import needs_compiler
from says import says

import noeira
from noeira.errors import CompositionError, VerifyError
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import OPS, Op
from noeira.job import job_of
from noeira.nn import (
    MSE,
    Fused,
    GradientPenalty,
    InputGradient,
    Linear,
    Losses,
    ReLU,
    Scale,
    Sequential,
    Tanh,
    Wasserstein,
)
from noeira.passes.pipeline import resume
from noeira.tracing import trace

SMALL = Sequential[Fused[Linear[2, 3], Tanh], Linear[3, 1]]


def test_what_it_takes_and_gives() -> None:
    net = InputGradient[SMALL]
    assert str(net.shapes()) == "(2) -> (1), (2)" and InputGradient[SMALL] is net
    assert list(net.parameters()) == list(SMALL.parameters())
    assert np.array_equal(net()[0][0].weight.val, SMALL()[0].weight.val)
    # One number a sample: `*` stands for nothing, or for whatever the module drops.
    assert str(InputGradient[Tanh].shapes()) == "(1) -> (1), (1)"
    assert str(InputGradient[module("(C, H) -> ()", lambda s, x: x)].shapes()) == (
        "(C, H) -> (), (C, H)"
    )
    scored = module("(4), (: i32 < 9) -> ()", lambda s, x, c: s.emit("sum", x, axes=(-1,)))
    assert str(InputGradient[scored].shapes()) == "(4), (: i32 < 9) -> (), (4)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: InputGradient[Linear[2, 3]],
            "InputGradient: Linear[2, 3] gives (*, 3), and the gradient is that of one number a "
            "sample: let it give (1) or ()",
        ),
        (
            lambda: InputGradient[InputGradient[SMALL]],
            f"InputGradient: InputGradient[{SMALL!r}] gives (1), (2), and the gradient is that of "
            "one number a sample: let it give (1) or ()",
        ),
        (
            lambda: InputGradient[module("(3: i32 < 5) -> (1)", lambda s, x: x)],
            "InputGradient: Q takes (3: i32 < 5) first, and only floats have a gradient",
        ),
        (
            lambda: InputGradient[Linear[2, 3], ReLU],
            "InputGradient[Linear[2, 3], ReLU]: InputGradient has one module; write "
            "InputGradient[Sequential[Linear[2, 3], ReLU]]",
        ),
    ],
)
def test_what_is_no_critic(make: Any, message: str) -> None:
    says(make, message)


@pytest.mark.parametrize("phase", ["train", "eval"])
def test_a_fused_type_inside_is_one_call_and_its_gradient_is_covered(phase: Any) -> None:
    graph = trace(InputGradient[SMALL], batch=4, phase=phase)
    assert [f"{n.outputs[0]} {n.group} {n.origin}" for n in graph.nodes if n.group] == [
        "%0.linear 0 from 0: Linear[2, 3] by trace",
        "%0.tanh 0 from 0: Tanh by trace",
        "%g.0.linear 0~ from 0: Tanh by trace",
        "%g.x 0~ from 0: Linear[2, 3] by trace",
    ]
    assert [str(v) for v in graph.outputs] == ["%1.linear", "%g.x"]


def test_a_step_differentiates_the_gradient_again() -> None:
    job = job_of(InputGradient[SMALL], batch=4, loss=Losses[Wasserstein, GradientPenalty])
    dump = job.gradients()
    graph = resume(dump)(dump).graph
    calls = [f"{len(n.parts)} in {n.group}" for n in graph.nodes if n.body]
    own = ["2 in 0", "2 in 0~", "3 in 0~~"]
    of_losses = ["2 in loss.0", "2 in loss.0~", "4 in loss.1", "7 in loss.1~"]
    assert sorted(calls) == sorted(own + of_losses)
    assert not [n for n in graph.nodes if n.launches and not n.body and "loss" in n.group]


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_the_gradient_is_that_of_each_sample(target: str) -> None:
    program = noeira.compile(InputGradient[FUSED], batch=4, target=target, dtype="f64")
    alone = noeira.compile(APART, batch=4, target=target, dtype="f64")
    x = data()[0]
    scores, slopes = program.forward(x)
    assert scores.shape == (ROWS, 1) and slopes.shape == x.shape
    np.testing.assert_allclose(scores, alone.forward(x), rtol=1e-13)
    for column in range(3):
        step = 1e-5 * np.eye(3)[column]
        wanted = (alone.forward(x + step) - alone.forward(x - step)) / 2e-5
        np.testing.assert_allclose(slopes[:, column], wanted[:, 0], atol=1e-9)


def test_what_does_not_follow_from_its_input_has_a_gradient_of_zeros() -> None:
    fixed = module("(3) -> (1)", lambda s, x: s.emit("broadcast", s.emit("constant"), shape=(4, 1)))
    program = noeira.compile(InputGradient[fixed], batch=4, target="reference")
    assert np.array_equal(program.forward(np.ones((4, 3), "f4"))[1], np.zeros((4, 3)))
    straight = InputGradient[module("(1) -> (1)", lambda s, x: x)]
    program = noeira.compile(straight, batch=4, target="reference")
    assert np.array_equal(program.forward(np.zeros((4, 1), "f4"))[1], np.ones((4, 1)))
    tripled = noeira.compile(InputGradient[Scale.of(multiplier=3.0)], batch=2, target="reference")
    assert np.array_equal(tripled.forward(np.zeros((5, 1), "f4"))[1], np.full((5, 1), 3.0))


@pytest.mark.parametrize("name", PENALTIES)
def test_parameters_gradients_agree_with_differences(name: str) -> None:
    program = program_of(FUSED, PENALTIES[name], "reference", "f64")
    x, sides = data()
    program.gradients(x, sides)
    found = gradients_of(program)
    wanted = differences(program, lambda: program.gradients(x, sides))
    scale = max(abs(one).max() for one in wanted.values())
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, atol=1e-8 * scale, err_msg=key)


@needs_compiler
@pytest.mark.parametrize("name", PENALTIES)
def test_no_gradient_is_none_and_not_missing(name: str) -> None:
    program = program_of(FUSED, PENALTIES[name], "cpu", "f32")
    x, sides = data()
    program.params["6.weight"][...] = 0
    # The critic is flat: the norm has no direction, and the penalty pulls nowhere.
    loss = program.gradients(x.astype("f4"), sides.astype("f4"))
    score = (program.params["6.bias"] * sides).mean()
    kind = PENALTIES[name]
    assert loss == pytest.approx(score + kind.COEFFICIENT * kind.TARGET**2, rel=1e-5)
    found = gradients_of(program)
    assert all(np.isfinite(value).all() for value in found.values())
    assert not found["0.weight"].any() and found["6.weight"].any()


def test_batch_statistics_are_refused_by_the_name_of_the_layer() -> None:
    net = InputGradient[Sequential[Linear[6, 8], batch_norm.BatchNorm1D[8], Tanh, Linear[8, 1]]]
    says(
        lambda: trace(net, batch=4),
        f"{net!r}: BatchNorm1D[8] at 1 puts samples together (column_statistics), and the gradient "
        "is to be that of each by itself: what follows from a whole batch, such as its mean, may "
        "not be inside",
    )
    # With running statistics, in evaluation, each sample stands for itself.
    assert str(trace(net, batch=4, phase="eval").outputs[1].type) == "f32[4, 6]"


def test_what_is_only_kept_account_of_may_be_of_the_batch() -> None:
    def run(scope: Any, x: Value) -> Value:
        if scope.phase == "train":
            scope.update("mean", scope.emit("sum", x, axes=(0,), scale=0.25))
        return scope.emit("tanh", x)

    watched = module("(3) -> (3)", run, mean=noeira.nn.Buffer("3"))
    net = InputGradient[Sequential[watched, Linear[3, 1]]]
    assert str(trace(net, batch=4).outputs[1].type) == "f32[4, 3]"


@pytest.fixture
def bend() -> Iterator[Any]:
    """A layer of an op whose gradient has none, for as long as the test."""

    class Bend(Op):
        name, operands = "bend", ("x",)

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            return args

        def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
            return {"x": back.emit("bend_grad", back.cotangent, back.inputs[0])}

    class BendGrad(Op):
        name, operands = "bend_grad", ("d", "x")

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            return args[1:]

    yield module("(*) -> (*)", lambda s, x: s.emit("bend", x), "Bent")
    del OPS[Bend.name], OPS[BendGrad.name]


def test_an_op_without_a_second_derivative_is_named_with_its_layer(bend: Any) -> None:
    net = InputGradient[Sequential[Linear[2, 1], bend]]
    assert len(trace(net, batch=4).outputs) == 2
    with pytest.raises(VerifyError) as found:
        noeira.compile(net, batch=4, loss=Losses[MSE, GradientPenalty], target="reference")
    assert str(found.value) == (
        "bend_grad has no gradient: define `vjp` in BendGrad, or keep it off the path to the loss\n"
        "while differentiating   %g.0.linear = bend_grad(%g, %0.linear) : f32[4, 1]   "
        "from 1: Bent by trace"
    )


def test_losses_of_one_output_each() -> None:
    with pytest.raises(CompositionError, match=r"gives 2 outputs, \(1\), \(2\); .* are 1 losses"):
        trace(InputGradient[SMALL], batch=4, loss=Losses[Wasserstein,])
    says(
        lambda: GradientPenalty.of(target=-1.0),
        "GradientPenalty.of(target=-1.0): target must be a number of at least 0, not -1.0",
    )
