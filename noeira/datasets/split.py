"""What every data set of images gives: its splits, where they came from, and pixels as floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np

WHITE = 255


class Source(NamedTuple):
    """Where the images came from: the full data set, that with images kept as JPEG, or the file
    that noeira ships; and the folder or file.
    """

    kind: Literal["full", "jpeg", "shipped"]
    path: Path


@dataclass(frozen=True, eq=False)
class Split:
    """Images and classes, C-contiguous.

    `x` is float32, or uint8 of raw images, (N, C, H, W), or of flat ones (N, C·H·W); `y` is int32,
    (N,).
    """

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


class Images:
    """The parent of data sets of images: `train` and `test`, each a Split; `source`; `classes`,
    the name of each.

    mean, std: of each channel, of pixels from 0 to 1; what standardised images are made with, and
    what `Standardize[mean, std]` is given for raw ones.
    """

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: Source
    train: Split
    test: Split

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.test):,} test"
        return f"<{type(self).__name__} {self.source.kind}: {sizes}>"


def to_split(images: np.ndarray, labels: np.ndarray, shape: tuple[int, ...]) -> Split:
    """Images u8 and labels u8 (N,) as a Split whose samples have `shape`, from 0 to 1."""
    import numpy as np

    x = images.reshape(-1, *shape).astype(np.float32)
    x /= np.float32(WHITE)
    return Split(x, labels.astype(np.int32))


def raw_split(images: np.ndarray, labels: np.ndarray, shape: tuple[int, ...]) -> Split:
    """Images and labels as a Split whose samples have `shape`, pixels as they are."""
    import numpy as np

    return Split(np.ascontiguousarray(images).reshape(-1, *shape), labels.astype(np.int32))


def standardised(images: np.ndarray, mean: Sequence[float], std: Sequence[float]) -> np.ndarray:
    """(x / 255 − mean) / std of u8 (N, C, H, W), mean and std of the channel, in float32: the bits
    that the layer `Standardize` gives.
    """
    import numpy as np

    made = np.empty(images.shape, np.float32)
    for channel, (centre, spread) in enumerate(zip(mean, std, strict=True)):
        # One channel at a time, without a second array of floats.
        plane = made[:, channel]
        np.multiply(images[:, channel], np.float32(1 / (WHITE * spread)), out=plane)
        plane += np.float32(-centre / spread)
    return made
