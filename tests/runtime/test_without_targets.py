"""Losses without a target: nothing is given for it, and where there is one it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.nn import SGD, CrossEntropy, Linear, StandardNormalKL

X = np.random.default_rng(0).standard_normal((20, 3)).astype("f4")


def program_of(loss: Any, **options: Any) -> noeira.Program:
    """A layer of four outputs, a batch of ten."""
    given = {"optimizer": SGD(lr=0.1), "batch": 10, "target": "reference"} | options
    return noeira.compile(Linear[3, 4], loss=loss, **given)


@pytest.mark.parametrize("parts", [1, 2])
def test_nothing_is_given_for_no_target(parts: int) -> None:
    program = program_of(StandardNormalKL, accumulate=parts)
    m, v = np.split(program.forward(X).astype(float), 2, axis=1)
    expected = ((m**2 + np.exp(v) - 1 - v) / 2).sum(1)
    if parts == 1:
        assert program.gradients(X[:10]) == pytest.approx(expected[:10].mean(), rel=1e-5)
    program.load(X, evaluation=(X, ()), shuffle=False)
    assert program.evaluate()["loss"] == pytest.approx(expected.mean(), rel=1e-5)
    assert program.step(X[:10]) == pytest.approx(expected[:10].mean(), rel=1e-5)
    assert program.steps(6) < expected.mean()


def test_a_trainer_trains_on_no_targets() -> None:
    one = noeira.Trainer(
        Linear[3, 4], loss=StandardNormalKL, optimizer=SGD(lr=0.1), batch=10, target="reference"
    )
    result = one.fit((X, ()), (X, ()), epochs=3, progress=False)
    assert result.epochs[2].loss < result.epochs[0].loss
    assert one.evaluate((X, ()))["loss"] == result.epochs[-1].test_loss


def test_a_target_that_is_lacking_is_asked_for() -> None:
    program = program_of(CrossEntropy)
    for call in (program.step, program.gradients, program.load):
        with pytest.raises(noeira.ShapeError) as caught:
            call(X[:10])
        assert str(caught.value) == "the loss takes 1 target, got 0"
    none = program_of(StandardNormalKL)
    with pytest.raises(noeira.ShapeError) as caught:
        none.step(X[:10], X[:10])
    assert str(caught.value) == "the loss takes 0 targets, got 1"
