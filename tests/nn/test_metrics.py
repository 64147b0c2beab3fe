"""Metrics over data whose last batch is smaller, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from loss_cases import Places

import noeira
from noeira.nn import (
    MSE,
    Accuracy,
    BCEWithLogits,
    BinaryAccuracy,
    CrossEntropy,
    Linear,
    MeanAbsoluteError,
    MeanSquaredError,
    Perplexity,
    SequenceCrossEntropy,
    Sequential,
    TopK,
    Weighted,
)
from noeira.nn.metrics import metric_name

ROWS = 11


def evaluated(net: Any, loss: Any, metrics: list[Any], target: str, x: Any, y: Any) -> Any:
    """What evaluation in batches of 4 gives, and the outputs."""
    program = noeira.compile(net, loss=loss, batch=4, target=target, metrics=metrics)
    program.load(evaluation=(x, y))
    return program.evaluate(), program.forward(x).astype("f8")


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_errors(target: str) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((ROWS, n)).astype("f4") for n in (5, 3))
    metrics = [MeanAbsoluteError, MeanSquaredError]
    found, given = evaluated(Linear[5, 3], MSE, metrics, target, x, y)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(given - y).mean(), rel=1e-6)
    assert found["mean_squared_error"] == pytest.approx(((given - y) ** 2).mean(), rel=1e-6)
    assert found["loss"] == pytest.approx(found["mean_squared_error"], rel=1e-6)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_hits_of_one_logit(target: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((ROWS, 5)).astype("f4"), random.integers(0, 2, (ROWS, 3))
    weights = np.ones(ROWS, "f4")
    targets = (y.astype("f4"), weights)
    found, given = evaluated(
        Linear[5, 3], Weighted[BCEWithLogits], [BinaryAccuracy], target, x, targets
    )
    assert found["binary_accuracy"] == pytest.approx(((given > 0) == y).mean())
    assert BinaryAccuracy.share and not Perplexity.share


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_perplexity(target: str) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((ROWS, 5)).astype("f4"), random.integers(0, 3, (ROWS, 2))
    net = Sequential[Linear[5, 6], Places[2, 3]]
    metrics = [Perplexity, Perplexity[0]]
    found, given = evaluated(net, SequenceCrossEntropy, metrics, target, x, y)
    rows = np.log(np.exp(given).sum(-1)) - np.take_along_axis(given, y[..., None], -1)[..., 0]
    assert found["perplexity"] == pytest.approx(np.exp(rows.mean()), rel=1e-6)
    assert found["perplexity.of(ignored=0)"] == pytest.approx(np.exp(rows[y != 0].mean()), rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-6)


def test_perplexity_of_no_number_and_beyond_all() -> None:
    assert Perplexity.value(1e4) == math.inf and math.isnan(Perplexity.value(math.nan))
    x, y = np.ones((2, 5), "f4"), np.zeros(2, int)
    found, _ = evaluated(Linear[5, 3], CrossEntropy, [Perplexity[0]], "reference", x, y)
    assert math.isnan(found["perplexity.of(ignored=0)"])


class Rounded(MeanSquaredError):
    """A metric whose value is one of NumPy's."""

    @classmethod
    def value(cls, mean: float) -> Any:
        return np.float32(mean)


def test_the_value_of_a_metric_is_a_float() -> None:
    x, y = np.ones((2, 5), "f4"), np.zeros((2, 3), "f4")
    found, _ = evaluated(Linear[5, 3], MSE, [Rounded], "reference", x, y)
    assert type(found["rounded"]) is float


class BCEHits2D1Of(BinaryAccuracy):
    """A metric with an acronym and digits in its name."""


def test_names() -> None:
    found = [MeanAbsoluteError, BinaryAccuracy, Perplexity, Accuracy, TopK[5], BCEHits2D1Of]
    assert [metric_name(kind) for kind in found] == [
        "mean_absolute_error",
        "binary_accuracy",
        "perplexity",
        "accuracy",
        "top_k[5]",
        "bce_hits2d1_of",
    ]
