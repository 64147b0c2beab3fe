"""Early stopping, and evaluation every few steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trained import bits, made_up, samples, trainer

import noeira
from noeira.ir.graph import Value
from noeira.nn import Metric
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import size
from noeira.training import EarlyStopping
from noeira.training.measure import Measure, measure_of
from noeira.training.progress import Reporter


@pytest.mark.parametrize(
    ("values", "larger", "least", "found"),
    [
        ([3.0, 2.0, 2.0, 1.9, 2.5], False, 0.0, [True, True, False, True, False]),
        ([3.0, 2.95, 2.5, 2.45], False, 0.5, [True, False, True, False]),
        ([0.1, 0.3, 0.2, np.nan, 0.4], True, 0.0, [True, True, False, False, True]),
        ([np.nan, 5.0, np.inf], False, 0.0, [False, True, False]),
    ],
)
def test_what_improves(values: list[float], larger: bool, least: float, found: list[bool]) -> None:
    measure, best, told = Measure("test_loss", larger), None, []
    for value in values:
        told.append(measure.improves(value, best, least))
        best = value if told[-1] else best
    assert told == found


def test_training_ends_when_nothing_gets_better(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up(monkeypatch, [0.5, 0.7, 0.6, 0.69, 0.7, 0.9])
    seen = list[bytes]()
    one = trainer()
    stop = EarlyStopping(patience=3, measure="test_accuracy")
    data = samples(40)
    result = one.fit(
        data, data, 10, stop=stop, callbacks=[lambda e: seen.append(bits(one.program))]
    )
    assert [e.accuracy for e in result.epochs] == [0.5, 0.7, 0.6, 0.69, 0.7]
    assert result.ended == "patience" and not result.interrupted
    assert result.best == result.evaluations[1] and result.best.step == 8
    assert bits(one.program) == seen[1] != seen[4]
    *_, why, back = capsys.readouterr().out.splitlines()
    assert why == (
        "stopped after step 20: test_accuracy got no better for 3 evaluations; its best is 0.7"
    )
    assert back == "the network is that of step 8 again, the best by its measure"
    assert str(result).startswith(
        "test accuracy 70.0 %, 70.0 % at step 8, the best (5 epochs, stopped early, "
    )


def test_what_is_best_can_be_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch, [0.5, 0.4])
    seen = list[bytes]()
    one, data = trainer(), samples(40)
    stop = EarlyStopping(patience=1, measure="test_accuracy", restore=False)
    kept: Any = [lambda epoch: seen.append(bits(one.program))]
    one.fit(data, data, 10, stop=stop, callbacks=kept, progress=False)
    assert bits(one.program) == seen[-1] != seen[0]


def test_the_best_is_restored_if_no_patience_ends_training(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch, [0.5, 0.9, 0.4])
    seen = list[bytes]()
    one, data = trainer(), samples(40)
    kept: Any = [lambda epoch: seen.append(bits(one.program))]
    stop = EarlyStopping(measure="test_accuracy")
    result = one.fit(data, data, 3, stop=stop, callbacks=kept, progress=False)
    assert result.ended == "epochs" and bits(one.program) == seen[1]


def test_without_test_data_the_training_loss_counts() -> None:
    one = trainer(optimizer=noeira.nn.SGD(lr=0.0))
    result = one.fit(samples(40), epochs=10, shuffle=False, stop=EarlyStopping(2), progress=False)
    assert len(result.epochs) == 3 and result.best == result.evaluations[0]
    assert result.best.test == {}


def test_evaluation_every_few_steps() -> None:
    data, test = samples(47), samples(30, 1)
    one, plain = trainer(), trainer()
    result = one.fit(data, test, 3, evaluate_every=3, progress=False)
    expected = plain.fit(data, test, 3, progress=False)
    # Five steps an epoch, the smaller last one included; step 15 is both.
    assert [e.step for e in result.evaluations] == [3, 5, 6, 9, 10, 12, 15]
    assert [e.epoch for e in result.evaluations] == [1, 1, 2, 2, 2, 3, 3]
    assert bits(one.program) == bits(plain.program)
    for found, wanted in zip(result.epochs, expected.epochs, strict=True):
        assert found.loss == pytest.approx(wanted.loss, rel=1e-12)
        assert (found.test_loss, found.metrics) == (wanted.test_loss, wanted.metrics)
        assert (found.number, found.step, found.samples) == (wanted.number, wanted.step, 47)
    first, second = result.evaluations[:2]
    assert (30 * first.loss + 17 * second.loss) / 47 == pytest.approx(expected.epochs[0].loss)


def test_progress_counts_a_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[int]()
    monkeypatch.setattr(Reporter, "advance", lambda self, steps, ask: told.append(ask()[1]))
    trainer().fit(samples(47), samples(30, 1), 2, evaluate_every=3, progress=False)
    assert told == [30, 40, 47, 10, 40, 47]


class Within(Metric):
    """The rows whose class is among the largest few, of A and B the larger."""

    A, B = size(), size()
    signature = "(*, C), (*: i32 < C) -> (), ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        return scope.emit("top_k", prediction, target, k=max(cls.A, cls.B))


def test_a_measure_may_have_spaces() -> None:
    kind = {"within[1, 2]": Within[1, 2]}
    found = measure_of("best", "largest test_within[1, 2]", True, kind)
    assert found == Measure("test_within[1, 2]", True)
    with pytest.raises(noeira.OptionError, match="say which is better: 'smallest test_within"):
        measure_of("best", "test_within[1, 2]", True, kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evaluate_every": 0}, "evaluate_every must be a whole number of at least 1, not 0"),
        ({"stop": 3}, "stop must be EarlyStopping(patience=5, …), not 3"),
        (
            {"stop": EarlyStopping(measure="accuracy")},
            "EarlyStopping: measure must be one of loss, test_loss, test_accuracy, not 'accuracy'; "
            "did you mean test_accuracy?",
        ),
        (
            {"stop": EarlyStopping(measure="test_mean_loss"), "metrics": True},
            "EarlyStopping: measure: test_mean_loss is no share of a whole, so say which is "
            "better: 'smallest test_mean_loss' or 'largest test_mean_loss'",
        ),
        (
            {"save_every": 3},
            "save_every has no effect without a folder: fit(…, folder='runs/1', save_every=…)",
        ),
        (
            {"resume": True},
            "resume has no effect without a folder: fit(…, folder='runs/1', resume=…)",
        ),
        (
            {"folder": "there", "best": "test_loss", "stop": EarlyStopping()},
            "best has no effect beside stop, whose measure says what is best: "
            "EarlyStopping(…, measure='test_loss')",
        ),
        (
            {"evalute_every": 3},
            "fit has no option evalute_every; it has train, test, epochs, shuffle, progress, "
            "evaluate_every, stop, callbacks, folder, resume, save_every, best, tensorboard, plot; "
            "did you mean evaluate_every?",
        ),
        ({"folder": 3}, "folder must be the name of a folder, not 3"),
        ({"folder": "there", "plot": 1}, "plot must be True or False, not 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    class MeanLoss(noeira.nn.Accuracy):
        share = False

    metrics = [MeanLoss] if options.pop("metrics", False) else None
    data = samples(20)
    one = trainer(**({"metrics": metrics} if metrics else {}))
    with pytest.raises(noeira.OptionError) as caught:
        one.fit(data, data, progress=False, **options)
    assert str(caught.value) == message


def test_evaluation_needs_data() -> None:
    with pytest.raises(noeira.OptionError) as caught:
        trainer().fit(samples(20), evaluate_every=2)
    assert str(caught.value) == (
        "evaluate_every has no effect without test data: fit(train, test, evaluate_every=…)"
    )
    with pytest.raises(noeira.OptionError, match=r"loss, not 'test_loss'; .*without test data"):
        trainer().fit(samples(20), stop=EarlyStopping(measure="test_loss"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 0}, "EarlyStopping: patience must be a whole number of at least 1, not 0"),
        (
            {"least": -1.0},
            "EarlyStopping: least must be a finite number, 0 or greater, the least improvement "
            "that counts, not -1.0",
        ),
        ({"restore": 1}, "EarlyStopping: restore must be True or False, not 1"),
    ],
)
def test_rules_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(noeira.OptionError) as caught:
        EarlyStopping(**options)
    assert str(caught.value) == message
