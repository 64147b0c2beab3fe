"""The networks that tests of programs run, and their data."""

from __future__ import annotations

import numpy as np

import noeira
from noeira.nn import (
    ELU,
    Linear,
    LinearGELU,
    LinearReLU,
    LinearSiLU,
    LinearTanh,
    Mish,
    Parallel,
    Repeat,
    Residual,
    Sequential,
)

Small = Sequential[LinearReLU[13, 17], Residual[LinearTanh[17, 17]], Linear[17, 5]]


Wide = Sequential[
    Parallel[LinearGELU[13, 8], LinearSiLU[13, 9]],
    Repeat[2, LinearReLU[17, 17]],
    ELU,
    Mish,
    Linear[17, 5],
]


def data(rows: int, seed: int = 0, dtype: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and class numbers."""
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, 13)).astype(dtype), random.integers(0, 5, rows)


def flat(program: noeira.Program) -> np.ndarray:
    """All parameters, copied."""
    return program.store.arrays["params"].copy()
