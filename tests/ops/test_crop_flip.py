"""Random crops and flips: against loops over pixels, the layout of memory, the adjoint, and how
numbers are spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noeira.ir.op import op
from noeira.ir.ops.augmentation import CropFlipAttrs, moves
from noeira.ir.random import philox

RULE = op("crop_flip")
NUMBERS = np.array(7), np.array(2**33 + 5), np.array(3)


def made(x: np.ndarray, *numbers: np.ndarray, **attrs: Any) -> np.ndarray:
    """The op's reference."""
    (result,) = RULE.reference(RULE.Attrs(**attrs), x, *(numbers or NUMBERS))
    return result


def by_loops(x: np.ndarray, padding: int, flip: float) -> np.ndarray:
    """The formula, pixel by pixel."""
    seed, tick, stream = map(int, NUMBERS)
    y, (batch, _, height, width) = np.zeros_like(x), x.shape
    for b in range(batch):
        words = [int(word) for word in philox(seed, stream, b, 1, tick)[0]]
        down, right = (word * (2 * padding + 1) // 2**32 - padding for word in words[:2])
        for i in range(height):
            for j in range(width):
                place = width - 1 - j if (words[2] >> 8) / 2**24 < flip else j
                if 0 <= i + down < height and 0 <= place + right < width:
                    y[b, :, i, j] = x[b, :, i + down, place + right]
    return y


@pytest.mark.parametrize(("padding", "flip"), [(2, 0.5), (9, 0.25), (0, 0.5), (1, 0.0), (3, 1.0)])
def test_it_is_the_formula(padding: int, flip: float):
    x = np.random.default_rng(0).standard_normal((20, 2, 5, 7)).astype(np.float32)
    np.testing.assert_array_equal(made(x, padding=padding, flip=flip), by_loops(x, padding, flip))


@pytest.mark.parametrize("adjoint", [False, True])
def test_channels_lie_first_or_last(adjoint: bool):
    x = np.random.default_rng(0).standard_normal((9, 3, 6, 5))
    first = made(x, padding=2, adjoint=adjoint)
    last = made(x.transpose(0, 2, 3, 1), padding=2, adjoint=adjoint, channels_last=True)
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), first)


def test_the_adjoint_is_one():
    x, d = np.random.default_rng(0).integers(-9, 10, (2, 30, 2, 5, 6)).astype(np.float64)
    for padding, flip in ((2, 0.5), (7, 0.5), (0, 0.5)):
        forth = made(x, padding=padding, flip=flip)
        back = made(d, padding=padding, flip=flip, adjoint=True)
        assert (forth * d).sum() == (x * back).sum()


def test_an_image_is_its_own_with_an_image_twice_as_many():
    """What is drawn follows from the place in the batch, whatever else is in it."""
    x = np.random.default_rng(0).standard_normal((8, 1, 6, 6))
    np.testing.assert_array_equal(made(x)[:4], made(x[:4]))
    other = NUMBERS[0], NUMBERS[1] + 1, NUMBERS[2]
    assert not np.array_equal(made(x), made(x, *other))


def test_all_places_are_as_likely():
    attrs, count = CropFlipAttrs(padding=4), 90_000
    down, right, flipped = moves(attrs, count, 1, 2, 3)
    for offsets in (down, right):
        assert np.bincount(offsets + 4).shape == (9,)
        assert np.abs(np.bincount(offsets + 4) - count / 9).max() < 5 * np.sqrt(count / 9)
    assert abs(flipped.mean() - 0.5) < 0.01
    assert abs(np.corrcoef([down, right, flipped])[np.triu_indices(3, 1)]).max() < 0.02
