"""The trainer: learning, results, progress, Ctrl-C, bad losses."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.datasets import MNIST
from noeira.ir.graph import Value
from noeira.nn import (
    MSE,
    SGD,
    Accuracy,
    Adam,
    CrossEntropy,
    Linear,
    LinearReLU,
    Metric,
    Module,
    Scope,
    Sequential,
    Tanh,
    TopK,
)

Net = Sequential[LinearReLU[784, 64], Linear[64, 10]]
FULL = "NOEIRA_DATA is unset: the full MNIST is not at hand"


class MLP(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """The network of the first example."""


@pytest.fixture
def subset(monkeypatch: pytest.MonkeyPatch, tmp_path) -> MNIST:
    """The images that the package ships, wherever others may be."""
    monkeypatch.setenv("NOEIRA_OFFLINE", "1")
    monkeypatch.delenv("NOEIRA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return MNIST()


def test_a_few_epochs_learn(subset: MNIST, capsys: pytest.CaptureFixture) -> None:
    trainer = noeira.Trainer(Net, batch=100, optimizer=Adam(lr=1e-3))
    result = trainer.fit(subset.train, subset.test, epochs=4)
    assert result.accuracy is not None and result.accuracy > 0.85
    assert [e.loss for e in result.epochs] == sorted((e.loss for e in result.epochs), reverse=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[0].startswith("epoch 1/4  loss ")
    assert str(result).startswith("test accuracy ") and str(result).count("4 epochs") == 1
    predicted = trainer.program.forward(subset.test.x).argmax(1)
    assert (predicted == subset.test.y).mean() == pytest.approx(result.accuracy)


def test_a_second_fit_goes_on(subset: MNIST) -> None:
    def losses(parts: list[int]) -> list[float]:
        trainer = noeira.Trainer(Net, batch=100, seed=3)
        return [
            epoch.loss
            for epochs in parts
            for epoch in trainer.fit(subset.train, epochs=epochs, progress=False).epochs
        ]

    assert losses([1, 2]) == losses([3])


@pytest.mark.parametrize("target", ["cpu", "reference", "cuda-cpu"])
def test_evaluation_needs_no_optimizer(target: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((47, 3)).astype("f4"), random.integers(0, 3, 47)
    options: Any = {"loss": CrossEntropy, "batch": 10, "target": target}
    trained = noeira.compile(Linear[3, 3], optimizer=SGD(lr=0.1), seed=3, **options)
    trained.load(x, y, evaluation=(x, y))
    trained.steps(7)
    scored = noeira.compile(trained.module, **options)
    with pytest.raises(noeira.NoeiraError, match=r"no evaluation data: call load\(evaluation="):
        scored.evaluate()
    scored.load(evaluation=(x, y))
    assert scored.evaluate() == trained.evaluate()
    with pytest.raises(noeira.NoeiraError, match="cannot be trained"):
        scored.load(x, y)
    # A network without parameters has something to score too.
    plain = noeira.compile(Tanh, input=(3,), **options)
    plain.load(evaluation=(x, y))
    z = np.tanh(x)
    expected = (np.log(np.exp(z).sum(1)) - z[np.arange(47), y]).mean()
    assert plain.evaluate()["loss"] == pytest.approx(expected, rel=1e-5)
    bare = noeira.compile(Linear[3, 3], target=target)
    with pytest.raises(noeira.NoeiraError, match="cannot be evaluated: compile it with loss="):
        bare.load(evaluation=(x, y))
    with pytest.raises(noeira.DataError, match="or both"):
        trained.load(y=y)
    with pytest.raises(noeira.ShapeError, match=r"^the loss takes 1 target, got 0$"):
        trained.load(x)


def test_the_reference_learns_the_same(subset: MNIST) -> None:
    x, y = subset.train.x[:500], subset.train.y[:500]
    results = [
        noeira.Trainer(Net, batch=100, target=target).fit((x, y), (x, y), epochs=2, progress=False)
        for target in ("cpu", "reference")
    ]
    losses = [[e.loss for e in r.epochs] for r in results]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_a_regression_has_no_accuracy() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 3)).astype("f4")
    y = (x @ np.array([[1.0], [2.0], [3.0]], "f4")).astype("f4")
    trainer = noeira.Trainer(Linear[3, 1], batch=16, loss=MSE, optimizer=SGD(lr=0.1))
    result = trainer.fit((x, y), (x, y), epochs=30, progress=False)
    assert result.accuracy is None
    assert result.loss is not None and result.loss < 1e-4
    assert "loss" in str(result)


def test_metrics_of_ones_own() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((50, 3)).astype("f4"), random.integers(0, 7, 50)
    program = noeira.compile(
        Linear[3, 7], loss=CrossEntropy, optimizer=Adam(), batch=10, metrics=[TopK[3], Accuracy]
    )
    program.load(x, y, evaluation=(x, y))
    found = program.evaluate()
    z = program.forward(x)
    top = np.argsort(-z, 1)[:, :3]
    assert list(found) == ["loss", "top_k[3]", "accuracy"]
    assert found["top_k[3]"] == pytest.approx((top == y[:, None]).any(1).mean())
    assert found["accuracy"] == pytest.approx((top[:, 0] == y).mean())
    trainer = noeira.Trainer(Linear[3, 7], batch=10, metrics=[TopK[3]])
    epoch = trainer.fit((x, y), (x, y), epochs=1, progress=False).epochs[0]
    assert list(epoch.metrics) == ["top_k[3]"] and epoch.accuracy is None


class MeanLoss(Metric):
    """The cross-entropy of the rows, and their number."""

    signature = "(*, C), (*: i32 < C) -> (), ()"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("loss", CrossEntropy),)

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        _, count = scope.emit("top_k", prediction, target, k=1)
        mean = scope.child("loss", CrossEntropy).run(prediction, target)
        return scope.emit("scale", mean, factor=float(target.type.shape[0])), count


class OfNothing(Metric):
    """A sum of nothing: 0, 0."""

    signature = "(*, C), (*: i32 < C) -> (), ()"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("loss", CrossEntropy),)

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        mean = scope.child("loss", CrossEntropy).run(prediction, target)
        return mean, scope.emit("scale", mean, factor=0.0)


def test_a_metric_says_how_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((50, 3)).astype("f4"), random.integers(0, 7, 50)
    trainer = noeira.Trainer(Linear[3, 7], batch=10, metrics=[MeanLoss, Accuracy, OfNothing])
    found = trainer.fit((x, y), (x, y), epochs=1).epochs[0]
    assert found.metrics["mean_loss"] == pytest.approx(found.test_loss, rel=1e-5)
    assert np.isnan(found.metrics["of_nothing"])
    share = f"accuracy {100 * found.metrics['accuracy']:.2f} %"
    line = f"  mean_loss {found.test_loss:.4g}  {share}  of_nothing nan  "
    assert line in capsys.readouterr().out


def test_two_metrics_of_one_name_are_refused() -> None:
    accuracy = type("ACCURACY", (TopK[2],), {"__module__": __name__})
    for metrics in ([Accuracy, Accuracy], [Accuracy, accuracy], [TopK[2], TopK[2]]):
        with pytest.raises(noeira.OptionError, match="metrics has two that evaluation calls "):
            noeira.compile(Linear[3, 7], loss=CrossEntropy, metrics=metrics)


def interrupt_soon() -> list[float]:
    """Send Ctrl-C half a second after training has begun to look for it; gives the time, later."""
    sent = list[float]()

    def interrupt() -> None:
        before = signal.getsignal(signal.SIGINT)
        while signal.getsignal(signal.SIGINT) is before:
            time.sleep(0.01)
        time.sleep(0.5)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    return sent


def test_ctrl_c_in_a_long_evaluation_stops_within_a_second() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((1_000_000, 3)).astype("f4"), random.integers(0, 3, 1_000_000)
    trainer = noeira.Trainer(Linear[3, 3], batch=1)
    trainer.fit((x[:10], y[:10]), epochs=1, progress=False)
    sent = interrupt_soon()
    result = trainer.fit((x[:10], y[:10]), (x, y), epochs=1000, progress=False)
    assert result.interrupted and time.perf_counter() - sent[0] < 1.0


def test_ctrl_c_stops_within_a_second_and_keeps_what_was_learned(subset: MNIST) -> None:
    trainer = noeira.Trainer(Net, batch=10)
    trainer.fit(subset.train, epochs=1, progress=False)
    sent = interrupt_soon()
    result = trainer.fit(subset.train, epochs=100_000, progress=False)
    assert time.perf_counter() - sent[0] < 1.0
    assert result.interrupted and result.epochs
    assert np.isfinite(trainer.program.params["0.weight"]).all()
    again = trainer.fit(subset.train, epochs=1, progress=False)
    assert not again.interrupted


def test_ctrl_c_before_the_first_epoch_ends_fit_too(
    subset: MNIST, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    trainer = noeira.Trainer(Net, batch=10)
    with monkeypatch.context() as patched:
        patched.setattr("noeira.compiler.build", interrupted)
        result = trainer.fit(subset.train)
    assert result.interrupted and not result.epochs
    assert capsys.readouterr().out == "stopped before the first epoch\n"
    assert not trainer.fit(subset.train, epochs=1, progress=False).interrupted


def test_a_loss_that_is_not_finite_stops_with_everything_as_before() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((100, 784)).astype("f4"), random.integers(0, 10, 100)
    x[37, 5] = np.nan
    trainer = noeira.Trainer(Net, batch=20)
    with pytest.raises(noeira.NotFiniteError, match=r"step 2 is not finite: x\[37, 5\] is nan"):
        trainer.fit((x, y), epochs=2, shuffle=False, progress=False)
    assert trainer.program.store.arrays["adam.step"] == 1
    assert np.isfinite(trainer.program.store.arrays["params"]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t, x, y: t.fit(x),
            "train must have .x and .y, such as MNIST().train, or be a pair",
        ),
        (
            lambda t, x, y: t.fit((x, y), epochs=0),
            "epochs must be a whole number of at least 1, not 0",
        ),
        (lambda t, x, y: t.fit((x[:, :9], y)), "takes (*, 784), not (9,)"),
        (lambda t, x, y: t.fit((x.astype("f8"), y)), "x.astype(np.float32)"),
        (lambda t, x, y: t.fit((x, y[:5])), "y has 5 rows, x has 40"),
        (lambda t, x, y: t.fit((x[:7], y[:7])), "7 samples are fewer than one batch of 20"),
        (lambda t, x, y: t.fit((x, y + 9)), "it must be from 0 to 9"),
        (lambda t, x, y: t.fit((x, y), (x, y + 9)), "evaluation y[0] is"),
    ],
)
def test_bad_data(call, message: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((40, 784)).astype("f4"), random.integers(0, 10, 40)
    with pytest.raises(noeira.NoeiraError) as caught:
        call(noeira.Trainer(Net, batch=20), x, y)
    assert message in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif("NOEIRA_DATA" not in os.environ, reason=FULL)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mnist_reaches_its_goal(seed: int) -> None:
    mnist = MNIST()
    trainer = noeira.Trainer(MLP, batch=100, optimizer=Adam(lr=1e-3), seed=seed)
    result = trainer.fit(mnist.train, mnist.test, epochs=5, progress=False)
    assert result.accuracy is not None and result.accuracy >= 0.975


@pytest.mark.slow
def test_the_shipped_subset_reaches_its_goal(subset: MNIST) -> None:
    trainer = noeira.Trainer(MLP, batch=100, optimizer=Adam(lr=1e-3))
    result = trainer.fit(subset.train, subset.test, epochs=20, progress=False)
    assert result.accuracy is not None and result.accuracy >= 0.935


def test_other_data_begin_at_their_beginning() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((100, 784)).astype("f4"), random.integers(0, 10, 100)
    program = noeira.compile(Net, loss=CrossEntropy, optimizer=SGD(lr=0.0), batch=10)
    program.load(x, y, shuffle=False)
    program.steps(9)
    program.load(x[:20], y[:20], shuffle=False)
    expected = [program.gradients(x[i : i + 10], y[i : i + 10]) for i in (0, 10, 0)]
    assert [program.steps(1) for _ in range(3)] == pytest.approx(expected, rel=1e-6)


def test_data_that_were_refused_decide_nothing() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((40, 3)).astype("f4"), random.integers(0, 3, 40)
    trainer = noeira.Trainer(Sequential[Tanh, Linear[3, 3]], batch=20, optimizer=SGD(lr=0.1))
    with pytest.raises(noeira.ShapeError):
        trainer.fit((np.zeros((40, 2, 3), "f4"), y), progress=False)
    assert trainer.fit((x, y), epochs=1, progress=False).loss is not None
    with pytest.raises(noeira.DataError):
        trainer.fit((x, y + 9), progress=False)
    assert not trainer.fit((x, y), epochs=1, progress=False).interrupted


def test_labels_changed_in_place_count() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((40, 784)).astype("f4"), np.zeros(40, "i8")
    trainer = noeira.Trainer(Net, batch=20, optimizer=SGD(lr=0.0))
    losses = []
    for label in (0, 0, 1):
        y[...] = label
        losses.append(trainer.fit((x, y), epochs=1, shuffle=False, progress=False).loss)
    assert losses[0] == losses[1] and abs(losses[2] - losses[0]) > 0.01


def test_fit_takes_other_data(subset: MNIST) -> None:
    trainer = noeira.Trainer(Net, batch=20, optimizer=SGD(lr=0.0))
    losses = []
    for start in (0, 100, 0):
        x, y = subset.train.x[start : start + 40].copy(), subset.train.y[start : start + 40]
        losses.append(trainer.fit((x, y.astype("i8")), epochs=1, progress=False).loss)
    # The same samples in another order.
    assert losses[0] == pytest.approx(losses[2], rel=1e-6)
    assert abs(losses[1] - losses[0]) > 0.01


@pytest.mark.parametrize(
    ("name", "message"),
    [("lr", "lr of a trainer cannot be set: write trainer.program.lr"), ("momentum", "cannot be")],
)
def test_a_name_that_would_do_nothing_is_refused(name: str, message: str) -> None:
    with pytest.raises(noeira.NoeiraError, match=message):
        setattr(noeira.Trainer(Linear[3, 2]), name, 0.5)
