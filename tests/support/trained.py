"""Small trainings for tests of the trainer: data, a network, and evaluations that were made up."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.nn import SGD, Linear, LinearReLU, Sequential
from noeira.runtime.resident import EvaluationData
from noeira.training import TrainResult

Net = Sequential[LinearReLU[5, 8], Linear[8, 3]]


def samples(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of five numbers, and the place of the largest of the first three."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 5)).astype("f4")
    return x, x[:, :3].argmax(1).astype("i4")


def trainer(**options: Any) -> noeira.Trainer:
    """A trainer that compiles nothing."""
    given: dict[str, Any] = {"batch": 10, "optimizer": SGD(lr=0.1), "target": "reference"}
    return noeira.Trainer(Net, **{**given, **options})


def bits(program: noeira.Program) -> bytes:
    """All parameters, exactly."""
    return b"".join(program.params[name].tobytes() for name in program.params)


def made_up(monkeypatch: pytest.MonkeyPatch, accuracies: Sequence[float]) -> None:
    """Let evaluations find these accuracies in turn, and losses that say nothing."""
    following: Iterator[float] = iter(accuracies)

    def evaluate(self: EvaluationData, between: Any = None) -> dict[str, float]:
        return {"loss": 1.0, "accuracy": next(following)}

    monkeypatch.setattr(EvaluationData, "evaluate", evaluate)


DATA, TEST = samples(47), samples(30, 1)


def fit(one: noeira.Trainer, folder: Path, epochs: int, **options: Any) -> TrainResult:
    """Train on DATA, with a folder."""
    return one.fit(DATA, TEST, epochs, progress=False, folder=folder, **options)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of both logs, which are the same."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    with open(folder / "metrics.csv", newline="") as file:
        texts = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items()} for row in texts] == found
    return found
