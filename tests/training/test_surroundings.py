"""What surrounds the optimizer, seen by the trainer: schedules, clipping, averages, parts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained import Net, bits, samples, trainer

import noeira
from noeira.nn import ClipNorm, Cosine
from noeira.training import Step

DATA, TEST = samples(47), samples(30, 1)


def batches(rows: int = 10) -> list[Any]:
    """The data, cut."""
    x, y = DATA
    return [(x[i : i + rows], y[i : i + rows]) for i in range(0, len(x), rows)]


class Steps:
    """Keeps what it is told of steps."""

    def __init__(self) -> None:
        self.told = list[Step]()

    def on_step(self, step: Step) -> None:
        self.told.append(step)


def test_rates_and_norms_are_in_records_and_logs(tmp_path: Path) -> None:
    options: Any = {"schedule": Cosine(epochs=3), "clip": ClipNorm(0.5)}
    steps, looked, plain, streamed = Steps(), trainer(**options), trainer(**options), Steps()
    looked.fit(DATA, TEST, 3, shuffle=False, callbacks=[steps], progress=False)
    rates = [step.lr for step in steps.told]
    # Half a cosine, a rate an epoch: its ends and its middle.
    np.testing.assert_allclose(rates, np.repeat([0.1, 0.05, 0.0], 5), atol=1e-7)
    result = plain.fit(DATA, TEST, 3, shuffle=False, folder=tmp_path, progress=False)
    assert [e.lr for e in result.epochs] == [rates[4], rates[9], rates[14]]
    norms = [step.grad_norm for step in steps.told]
    found = [e.grad_norm for e in result.evaluations]
    assert found == pytest.approx([np.mean(norms[i : i + 5]) for i in (0, 5, 10)])
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["grad_norm"]) for row in rows] == found
    # Batches that come one by one tell the same.
    other = trainer(**options)
    other.fit(batches(), TEST, 3, callbacks=[streamed], progress=False)
    assert [step.lr for step in streamed.told] == rates
    assert [step.grad_norm for step in streamed.told] == pytest.approx(norms)
    assert bits(other.program) == bits(plain.program) == bits(looked.program)


def test_a_schedule_of_epochs_wants_to_know_them() -> None:
    one = trainer(schedule=Cosine(epochs=3))
    with pytest.raises(noeira.OptionError) as caught:
        one.fit(lambda epoch: iter(batches()), epochs=1)
    assert str(caught.value) == (
        "the schedule counts epochs, and nobody knows how many batches train gives in one: write "
        "trainer.program.epoch_steps = …, give what has a len, such as a list or a DataLoader, or "
        "let the schedule count steps"
    )
    counted = trainer(schedule=Cosine(epochs=3))
    counted.fit(batches(), epochs=3, progress=False)
    one.program.epoch_steps = 5
    one.fit(lambda epoch: iter(batches()), epochs=3, progress=False)
    assert bits(one.program) == bits(counted.program)


def test_averages_of_another_training_are_not_evaluated() -> None:
    net, options = Net(), {"batch": 10, "target": "reference"}
    for one in (noeira.Trainer(net, ema=0.9, **options), noeira.Trainer(net, **options)):
        one.fit(DATA, epochs=2, progress=False)
    np.testing.assert_array_equal(one.predict(TEST[0]), one.program.forward(TEST[0]))


def test_averages_are_what_is_evaluated(tmp_path: Path) -> None:
    one = trainer(ema=0.9)
    result = one.fit(DATA, TEST, 3, progress=False, folder=tmp_path)
    with one.program.averaged():
        expected = one.program.forward(TEST[0])
    assert not np.array_equal(one.program.forward(TEST[0]), expected)
    np.testing.assert_array_equal(one.predict(TEST[0]), expected)
    right = expected.argmax(1) == TEST[1]
    assert result.accuracy == pytest.approx(right.mean())
    assert one.evaluate(TEST)["accuracy"] == result.accuracy
    assert one.confusion_matrix(TEST).accuracy == pytest.approx(right.mean())
    again = trainer(ema=0.9)
    again.fit(DATA, TEST, 3, progress=False, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(again.predict(TEST[0]), expected)


def test_batches_in_parts() -> None:
    whole, streamed = (trainer(accumulate=2) for _ in range(2))
    expected = whole.fit(DATA, epochs=2, shuffle=False, progress=False)
    result = streamed.fit(batches(), epochs=2, progress=False)
    assert bits(streamed.program) == bits(whole.program)
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)
    assert result.epochs[-1].step == expected.epochs[-1].step == 10
