"""Losses as types: their kernels, formulas, reductions and weights, one of one's own, and what is
refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loss_cases import Places
from says import says

import noeira
from noeira.errors import CompositionError, OptionError
from noeira.ir.graph import Value
from noeira.nn import (
    L1,
    MSE,
    SGD,
    Accuracy,
    BCEWithLogits,
    BinaryFocalLoss,
    CrossEntropy,
    ElementwiseLoss,
    FocalLoss,
    GaussianKL,
    GaussianNLL,
    Huber,
    KLDivergence,
    Linear,
    Loss,
    Losses,
    Module,
    Param,
    Scope,
    SequenceCrossEntropy,
    Sequential,
    SmoothL1,
    SoftCrossEntropy,
    StandardNormalKL,
    TopK,
    Weighted,
)

ELEMENTWISE = {
    L1: "absolute_error",
    Huber: "huber",
    SmoothL1[0.5]: "smooth_l1",
    BCEWithLogits: "binary_cross_entropy",
    BinaryFocalLoss: "binary_focal",
    KLDivergence: "kl_divergence",
    MSE.of(reduction="sum"): "squared_error",
}


class LogCosh(ElementwiseLoss):
    """log cosh of the error, in several ops and with arithmetic."""

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        error = prediction - target
        return scope.emit("softplus", 2.0 * error) - error - 0.69314718


class Two(Module):
    """A mean and a log-variance."""

    mean = Param("4", "3")
    spread = Param("4", "3")
    signature = "(4) -> (3), (3)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        return tuple(scope.emit("matmul", x, scope.param(name)) for name in ("mean", "spread"))


class Three(Module):
    """A reconstruction, a mean and a log-variance, as an autoencoder has them."""

    decoder = Param("4", "5")
    signature = "(4) -> (5), (3), (3)"

    @classmethod
    def children(cls) -> Any:
        return (("code", Two),)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        made = scope.emit("matmul", x, scope.param("decoder"))
        return (made, *scope.child("code", Two).run(x))


def test_losses_share_out_the_outputs() -> None:
    loss = Losses[BCEWithLogits, StandardNormalKL.of(separate=True)]
    program = noeira.compile(Three, loss=loss, batch=6, dtype="f64", target="reference")
    random = np.random.default_rng(0)
    x, y = random.standard_normal((6, 4)), random.integers(0, 2, (6, 5)).astype(np.float64)
    made, mean, spread = program.forward(x)
    wanted = (np.log1p(np.exp(made)) - made * y).mean()
    wanted += ((mean**2 + np.exp(spread) - 1 - spread).sum() / 2) / 6
    assert program.gradients(x, y) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(CompositionError) as error:
        noeira.compile(Two, loss=Losses[GaussianNLL.of(separate=True), MSE])
    assert str(error.value).endswith(
        "are 2 losses, which take 3 outputs, and there is to be one for each"
    )


def calls(loss: Any, target: str, net: Any = Linear[5, 4]) -> list[str]:
    """The ops of the launches that are a loss and its gradient."""
    found = noeira.explain(net, loss=loss, batch=33, target=target, optimizer=None)
    return [launch.op for launch in found.launches if launch.origin.path.startswith("loss")]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_elementwise_loss_is_one_call_each_way(target: str) -> None:
    for loss, op in ELEMENTWISE.items():
        assert calls(loss, target) == [f"fused[{op}, sum]", f"fused[broadcast, {op}.d0]"], loss
    forward, backward = calls(LogCosh, target)
    assert forward == "fused[subtract, scale, softplus, subtract, subtract, sum]"
    assert backward.startswith("fused[broadcast, ")
    separate = calls(GaussianNLL.of(separate=True), target, Two)
    assert separate == [
        "fused[gaussian_nll, sum]",
        "fused[broadcast, gaussian_nll.d0, gaussian_nll.d1]",
    ]


FORMULAS = {
    L1: lambda x, t: np.abs(x - t).mean(),
    Huber[0.5]: lambda x, t: np.where(
        np.abs(x - t) <= 0.5, (x - t) ** 2 / 2, 0.5 * (np.abs(x - t) - 0.25)
    ).mean(),
    SmoothL1[0]: lambda x, t: np.abs(x - t).mean(),
    BCEWithLogits[3]: lambda x, t: (
        -(3 * t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x)))).mean()
    ),
    GaussianNLL.of(high=0.5, full=True): lambda x, t: (
        (
            (x[:, :3] - t) ** 2 / np.exp(np.clip(x[:, 3:], -10, 0.5))
            + np.clip(x[:, 3:], -10, 0.5)
            + np.log(2 * np.pi)
        ).mean()
        / 2
    ),
    Weighted[L1]: lambda x, t, w: (np.abs(x - t) * w[:, None]).sum() / (3 * w.sum()),
    Weighted[GaussianKL]: lambda x, t, w: (
        (
            w[:, None]
            * (
                t[:, 3:]
                - x[:, 3:]
                + (np.exp(x[:, 3:]) + (x[:, :3] - t[:, :3]) ** 2) / np.exp(t[:, 3:])
                - 1
            )
        ).sum()
        / (2 * w.sum())
    ),
}


@pytest.mark.parametrize("loss", FORMULAS, ids=repr)
def test_formulas(loss: Any) -> None:
    random = np.random.default_rng(0)
    shapes = [tuple(p.axes) for p in loss.shapes().inputs]
    wide = "GaussianNLL" in repr(loss) or "GaussianKL" in repr(loss)
    x = random.standard_normal((5, 6 if wide else 3)) - 3 * wide
    t = random.uniform(size=(5, 6 if "GaussianKL" in repr(loss) else 3))
    given = (t, random.uniform(size=5)) if len(shapes) == 3 else t
    net = type(Module)("Plain", (Module,), plain(x.shape))
    program = noeira.compile(net, loss=loss, batch=5, dtype="f64", target="reference", metrics=[])
    program.params["w"][...] = x
    got = program.gradients(np.eye(5), given)
    assert got == pytest.approx(FORMULAS[loss](x, *(given if isinstance(given, tuple) else (t,))))


def plain(shape: tuple[int, int]) -> dict[str, Any]:
    """A network that gives its parameter for the identity."""

    def trace(cls: Any, scope: Scope, x: Value) -> Value:
        return scope.emit("matmul", x, scope.param("w"))

    rows, columns = map(str, shape)
    signature = f"({rows}) -> ({columns})"
    return {"w": Param(rows, columns), "signature": signature, "trace": classmethod(trace)}


def test_one_of_ones_own_has_reductions_and_weights() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 4, 3))
    weights, net = np.array([1.0, 0, 2, 0.5]), type(Module)("Plain", (Module,), plain((4, 3)))
    each = np.log(np.cosh(x - y))
    for loss, given, expected in (
        (LogCosh, y, each.mean()),
        (LogCosh.of(reduction="sum"), y, each.sum()),
        (Weighted[LogCosh], (y, weights), (each.mean(-1) * weights).sum() / 3.5),
    ):
        program = noeira.compile(net, loss=loss, batch=4, dtype="f64", target="reference")
        program.params["w"][...] = x
        assert program.gradients(np.eye(4), given) == pytest.approx(expected, rel=1e-7)
    assert str(LogCosh.of(reduction="none").shapes()) == "(*), (*) -> (*)"
    halves = Weighted.of(GaussianNLL, reduction="none")
    assert str(halves.shapes()) == "(*, 2*D), (*, D), () -> (*, D)"


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_weights_of_zero_change_nothing(target: str) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 5)).astype("f4")
    ids = random.integers(0, 3, 4)
    program = noeira.compile(
        Linear[5, 3], loss=Weighted[CrossEntropy], optimizer=SGD(lr=1.0), batch=4, target=target
    )
    before = program.params["weight"].copy()
    assert program.step(x, (ids, np.zeros(4, "f4"))) == 0
    np.testing.assert_array_equal(program.params["weight"], before)
    one = program.step(x[[2] * 4], (ids[[2] * 4], np.ones(4, "f4")))
    program.params["weight"][...], program.params["bias"][...] = before, 0
    assert program.step(x, (ids, np.array([0, 0, 7, 0], "f4"))) == pytest.approx(one, rel=1e-6)


def test_metrics_read_the_first_targets() -> None:
    random = np.random.default_rng(0)
    x, ids = random.standard_normal((10, 5)).astype("f4"), random.integers(0, 3, 10)
    options: Any = {"batch": 4, "target": "reference"}
    program = noeira.compile(Linear[5, 3], loss=Weighted[CrossEntropy], **options)
    program.load(evaluation=(x, (ids, np.ones(10, "f4"))))
    hits = (program.forward(x).argmax(-1) == ids).mean()
    assert program.evaluate()["accuracy"] == pytest.approx(hits)
    more = noeira.compile(Linear[5, 3], loss=CrossEntropy, metrics=[Accuracy, TopK[2]], **options)
    assert list(more.metrics) == ["accuracy", "top_k[2]"]


def test_the_mean_of_a_smaller_last_batch_is_its_own() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((5, 2)), random.standard_normal((5, 1))
    options: Any = {"optimizer": SGD(lr=0.1), "dtype": "f64", "target": "reference", "seed": 1}
    whole = noeira.compile(Linear[2, 1], loss=L1, batch=3, **options)
    whole.load(x, y, shuffle=False)
    whole.steps(2)
    parts = [noeira.compile(Linear[2, 1], loss=L1, batch=n, **options) for n in (3, 2)]
    parts[0].step(x[:3], y[:3])
    for name, value in parts[0].params.items():
        parts[1].params[name][...] = value
    parts[1].step(x[3:], y[3:])
    np.testing.assert_allclose(whole.params["weight"], parts[1].params["weight"], rtol=1e-13)


class NoEach(ElementwiseLoss):
    """A loss that does not say what it is."""


class Summed(ElementwiseLoss):
    """A loss that is a sum already."""

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("sum", prediction - target)


class Five(ElementwiseLoss):
    """A loss that is no value."""

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Any:
        return 5


class Own(Loss):
    """A number."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("mse", prediction, target)


def compiled(loss: Any, net: Any = Linear[4, 3]) -> Any:
    return lambda: noeira.compile(net, loss=loss, target="reference")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            compiled(CrossEntropy.of(reduction="none")),
            "loss: CrossEntropy.of(reduction='none') gives (*) for each sample, and training takes "
            "a number: leave reduction='none' out, or run it inside a loss of your own",
        ),
        (
            lambda: MSE.of(reduction="max"),
            "MSE.of(reduction='max'): reduction must be 'mean', 'sum' or 'none', not 'max'",
        ),
        (
            lambda: Weighted[Linear[4, 3]],
            "Weighted[Linear[4, 3]]: the module must be a loss; Linear[4, 3] is a layer",
        ),
        (
            lambda: Weighted[Losses[MSE, MSE]],
            "Weighted[Losses[MSE, MSE]]: Losses[MSE, MSE] gives one number, and weights need a "
            "value for each sample: derive it from ElementwiseLoss",
        ),
        (
            lambda: Weighted[Own],
            "Weighted[Own]: Own gives one number, and weights need a value for each sample: derive "
            "it from ElementwiseLoss",
        ),
        (
            lambda: Weighted[MSE.of(reduction="sum")],
            "Weighted[MSE.of(reduction='sum')]: weights come before the reduction: leave it out "
            "inside, and write Weighted.of(…, reduction='sum')",
        ),
        (
            lambda: Losses[MSE, MSE.of(reduction="none")],
            "Losses[MSE, MSE.of(reduction='none')]: MSE.of(reduction='none') gives (*) for each "
            "sample, and losses are added as numbers: leave reduction='none' out",
        ),
        (
            compiled(NoEach),
            "NoEach has no each: define the classmethod each(cls, scope, prediction, target), "
            "which gives a value for each element",
        ),
        (
            compiled(Summed),
            "Summed: each gives f32[]; it is to give a value for each element, and these are added "
            "up afterwards",
        ),
        (
            compiled(Weighted[Five]),
            "Five: each gives 5; it is to give a value for each element, and these are added up "
            "afterwards",
        ),
        (
            lambda: GaussianNLL.of(low=0, high=-1),
            "GaussianNLL.of(low=0.0, high=-1.0): low is 0 and high -1; low is the lower bound",
        ),
        (
            lambda: SequenceCrossEntropy.of(ignored=-100),
            "SequenceCrossEntropy.of(ignored=-100): ignored is one of the ids, which begin with 0; "
            "give these places one that has no other use: np.where(ids == -100, 0, ids)",
        ),
        (
            compiled(SequenceCrossEntropy.of(ignored=7), Sequential[Linear[4, 6], Places[2, 3]]),
            "SequenceCrossEntropy.of(ignored=7): ignored is one of the ids, which are below 3 here",
        ),
        (
            compiled(FocalLoss, Linear[4, 1]),
            "FocalLoss compares the logits of classes, and the network gives one number a row: for "
            "numbers write loss=MSE, for two classes let it give two logits",
        ),
    ],
)
def test_messages(make: Any, message: str) -> None:
    says(make, message, OptionError if message.startswith("loss: ") else CompositionError)


def test_what_they_print() -> None:
    assert str(StandardNormalKL.shapes()) == "(*, 2*D) -> ()"
    assert repr(SoftCrossEntropy.of(reduction="sum")) == "SoftCrossEntropy.of(reduction='sum')"
    assert SoftCrossEntropy[0.1] is SoftCrossEntropy.of(smoothing=0.1)
