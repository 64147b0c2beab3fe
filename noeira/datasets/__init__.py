"""Data sets as plain NumPy arrays, found on this machine, downloaded, or shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noeira.datasets.mnist import MNIST, Source, Split

__all__ = ["MNIST", "Source", "Split"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from noeira.datasets import mnist

        return getattr(mnist, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
