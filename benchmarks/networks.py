"""The networks that the benchmarks train, and batches for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.nn import (
    Conv2D,
    Flatten,
    Fused,
    Linear,
    LinearReLU,
    MaxPool2D,
    ReLU,
    Repeat,
    ResNet18,
    Sequential,
)

if TYPE_CHECKING:
    import numpy as np


class MLP(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """MNIST classifier: the network of the peers' `mlp_…` configurations."""


class Deep(Sequential[Repeat[12, LinearReLU[1024, 1024]], Linear[1024, 10]]):
    """Twelve wide layers."""


class ConvNet(
    Sequential[
        Fused[Conv2D.of(3, 32, 3, padding=1), ReLU],
        Fused[Conv2D.of(32, 64, 3, padding=1), ReLU],
        MaxPool2D[2],
        Fused[Conv2D.of(64, 128, 3, padding=1), ReLU],
        MaxPool2D[2],
        Flatten,
        LinearReLU[8192, 256],
        Linear[256, 10],
    ]
):
    """Classifier of images of 32x32: the network of the peers' `convnet_…` configurations."""


class ResNet(ResNet18.of(10, stem="cifar")):
    """ResNet-18 for images of 32x32: the network of the peers' `resnet18_…` configurations."""


def batch_of(rows: int, width: int = 784) -> tuple[np.ndarray, np.ndarray]:
    """Samples drawn at random, and class ids from 0 to 9."""
    import numpy as np

    random = np.random.default_rng(0)
    x = random.random((rows, width), np.float32)
    return x, random.integers(0, 10, rows).astype(np.int32)


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 3x32x32 drawn at random, and class ids from 0 to 9."""
    import numpy as np

    random = np.random.default_rng(0)
    x = random.standard_normal((count, 3, 32, 32), np.float32)
    return x, random.integers(0, 10, count).astype(np.int32)
