"""Data sets as plain NumPy arrays, found on this machine, downloaded, or shipped."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noeira.datasets.cifar10 import CIFAR10
    from noeira.datasets.fashion_mnist import FashionMNIST
    from noeira.datasets.mnist import MNIST
    from noeira.datasets.split import Source, Split

# Name -> the file that has it, which is imported when the name is asked for.
FILES = {
    "CIFAR10": "cifar10",
    "FashionMNIST": "fashion_mnist",
    "MNIST": "mnist",
    "Source": "split",
    "Split": "split",
}
__all__ = ["CIFAR10", "MNIST", "FashionMNIST", "Source", "Split"]


def __getattr__(name: str) -> object:
    if name in FILES:
        return getattr(importlib.import_module(f"noeira.datasets.{FILES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
