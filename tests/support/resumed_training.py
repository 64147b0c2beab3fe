"""A child process that goes on with training from a checkpoint: `TARGET FILE NEW_FILE EPOCHS`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from stateful_layers import Noise, RunningMean

import noeira
from noeira.nn import Adam, CrossEntropy, Linear, Sequential

# A network with every kind of state: parameters, buffers, moments, counts, random numbers.
Net = Sequential[Linear[4, 6], RunningMean[6], Noise, Linear[6, 3]]


def program(target: str, seed: int = 5, optimizer: Any = None, batch: int = 5) -> noeira.Program:
    """A program that trains it, with Adam by default."""
    options: Any = {"loss": CrossEntropy, "batch": batch, "dtype": "f64"}
    options["optimizer"] = optimizer or Adam(lr=0.01)
    return noeira.compile(Net, target=target, seed=seed, **options)


def data(rows: int = 23) -> tuple[np.ndarray, np.ndarray]:
    """Samples, of which the last batch is smaller."""
    random = np.random.default_rng(0)
    return random.standard_normal((rows, 4)), random.integers(0, 3, rows)


def main(target: str, path: str, new: str, steps: int) -> None:
    """Restore, train, save. The seed that the program was compiled with is another."""
    resumed = program(target, seed=1)
    resumed.restore(path)
    resumed.load(*data())
    resumed.steps(steps)
    resumed.save(new)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
