"""The networks that the benchmarks train, and a batch for the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.nn import Linear, LinearReLU, Repeat, Sequential

if TYPE_CHECKING:
    import numpy as np


class MLP(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """MNIST classifier: the network of the peers' `mlp_…` configurations."""


class Deep(Sequential[Repeat[12, LinearReLU[1024, 1024]], Linear[1024, 10]]):
    """Twelve wide layers."""


def batch_of(rows: int, width: int = 784) -> tuple[np.ndarray, np.ndarray]:
    """Samples drawn at random, and class ids from 0 to 9."""
    import numpy as np

    random = np.random.default_rng(0)
    x = random.random((rows, width), np.float32)
    return x, random.integers(0, 10, rows).astype(np.int32)
