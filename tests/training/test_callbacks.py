"""Callbacks: when they are called, with what, and what they may do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trained import bits, samples, trainer

import noeira
from noeira.training import Epoch, Evaluation, Step


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told = list[Any]()

    def on_step(self, step: Step) -> None:
        self.told.append(step)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        self.told.append(evaluation)

    def on_epoch(self, epoch: Epoch) -> None:
        self.told.append(epoch)


def test_moments_come_in_order() -> None:
    recorder, data, test = Recorder(), samples(40), samples(20, 1)
    one, plain = trainer(), trainer()
    result = one.fit(data, test, 2, evaluate_every=3, callbacks=[recorder], progress=False)
    kinds = [(type(record).__name__, record.step) for record in recorder.told]
    first = [("Step", 1), ("Step", 2), ("Step", 3), ("Evaluation", 3), ("Step", 4)]
    assert kinds[:7] == [*first, ("Evaluation", 4), ("Epoch", 4)]
    assert kinds[7:] == [
        ("Step", 5),
        ("Step", 6),
        ("Evaluation", 6),
        ("Step", 7),
        ("Step", 8),
        ("Evaluation", 8),
        ("Epoch", 8),
    ]
    assert [r for r in recorder.told if isinstance(r, Epoch)] == list(result.epochs)
    assert [r for r in recorder.told if isinstance(r, Evaluation)] == list(result.evaluations)
    losses = [r.loss for r in recorder.told if isinstance(r, Step)]
    assert np.mean(losses[:4]) == pytest.approx(result.epochs[0].loss)
    assert recorder.told[0].lr == 0.1 and recorder.told[0].epoch == 1
    # Looking at every step changes no bit of what is learned.
    plain.fit(data, test, 2, progress=False)
    assert bits(one.program) == bits(plain.program)


def test_one_may_ask_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    class EndsAt:
        def on_step(self, step: Step) -> bool:
            return step.step == 6

    one = trainer()
    result = one.fit(samples(40), epochs=5, callbacks=[EndsAt()])
    assert result.ended == "callback" and len(result.epochs) == 1
    assert one.program.loaded().done == 2
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"stopped after step 6: {EndsAt.__qualname__} asked for it"

    def enough(epoch: Epoch) -> np.bool_:
        return np.bool_(epoch.number == 2)

    assert len(trainer().fit(samples(40), callbacks=[enough], progress=False).epochs) == 2


def test_one_that_fails_is_named_and_what_was_learned_is_kept(tmp_path: Any) -> None:
    def faulty(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise ValueError("no more")

    one, data = trainer(), samples(40)
    with pytest.raises(noeira.NoeiraError) as caught:
        one.fit(data, epochs=5, callbacks=[faulty], folder=tmp_path / "run", progress=False)
    name = faulty.__qualname__
    assert str(caught.value) == (
        f"the callback {name} failed in on_epoch, after step 8: ValueError: no more; "
        "what was learned is kept"
    )
    assert isinstance(caught.value.__cause__, ValueError)
    again = trainer()
    result = again.fit(data, epochs=2, folder=tmp_path / "run", resume=True, progress=False)
    assert len(result.epochs) == 2 and bits(again.program) == bits(one.program)


def test_an_answer_must_be_one() -> None:
    with pytest.raises(noeira.NoeiraError) as caught:
        trainer().fit(samples(40), callbacks=[lambda epoch: epoch.loss], progress=False)
    assert "in on_epoch: it gives True to stop, False or nothing to go on" in str(caught.value)


class Misspelt:
    def on_epoch_end(self, epoch: Epoch) -> None:
        """Keras's name."""


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (Recorder(), "callbacks is a list: write [Recorder]"),
        ([Recorder], "callbacks takes objects: write Recorder()"),
        (
            [Misspelt()],
            "the callback Misspelt has on_epoch_end, which is no moment; there are on_step, "
            "on_evaluation, on_epoch; did you mean on_epoch?",
        ),
        (
            [3],
            "3 is no callback: give a function of an epoch, or an object with on_step, "
            "on_evaluation or on_epoch",
        ),
    ],
)
def test_what_is_no_callback(callbacks: Any, message: str) -> None:
    with pytest.raises(noeira.OptionError) as caught:
        trainer().fit(samples(20), callbacks=callbacks)
    assert str(caught.value) == message
