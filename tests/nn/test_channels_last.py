"""Layers of images whose channels are the last axis give what they give with channels first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.interpret import interpret
from noeira.nn import (
    Conv2DBatchNorm,
    Conv2DBatchNormReLU,
    Dropout1D,
    Dropout2D,
    Dropout3D,
    RandomCropFlip,
    RandomFlip,
    ResBlock,
    ResBlockDownsample,
    Standardize,
)

MEAN, STD = (0.5, 0.25, 0.125, 0.75), (0.2, 0.3, 0.4, 0.5)
IMAGE = (4, 5, 6)
# A layer, its parameters, the word for channels last, and the shape of a sample.
LAYERS: list[tuple[Any, tuple[Any, ...], str, tuple[int, ...]]] = [
    (Standardize, (MEAN, STD), "nhwc", IMAGE),
    (RandomCropFlip, (2,), "nhwc", IMAGE),
    (RandomFlip, (), "nhwc", IMAGE),
    (Dropout1D, (0.5,), "nlc", (4, 5)),
    (Dropout2D, (0.5,), "nhwc", IMAGE),
    (Dropout3D, (0.5,), "ndhwc", (4, 2, 3, 2)),
    (Conv2DBatchNorm, (4, 6, 3, 2, 1), "nhwc", IMAGE),
    (Conv2DBatchNormReLU, (4, 6, 3), "nhwc", IMAGE),
    (ResBlock, (4,), "nhwc", IMAGE),
    (ResBlockDownsample, (4, 6), "nhwc", IMAGE),
    (ResBlockDownsample, (4, 6, "pad"), "nhwc", IMAGE),
]


def trained(net: Any, x: np.ndarray) -> np.ndarray:
    """What a network makes of x in training, by the reference, with parameters by their places."""
    graph = noeira.trace(net, batch=len(x), input=x.shape[1:])
    given = dict[str, np.ndarray]()
    for state in graph.states:
        numbers = np.linspace(0.1, 0.9, int(np.prod(state.value.type.shape)), dtype=np.float32)
        given[state.value.name] = numbers if state.members else np.asarray(7)
    return interpret(graph, {"x": x, **given})[graph.outputs[0].name]


@pytest.mark.parametrize(("family", "values", "word", "sample"), LAYERS)
def test_channels_last_are_channels_first(
    family: Any, values: tuple[Any, ...], word: str, sample: tuple[int, ...]
) -> None:
    numbers = np.random.default_rng(0)
    x = numbers.integers(0, 256, (3, *sample), dtype=np.uint8)
    if family is not Standardize:
        x = (x / np.float32(255)).astype(np.float32)
    first, last = family.of(*values), family.of(*values, axes=word)
    assert last.parameters().keys() == first.parameters().keys()
    wanted = np.moveaxis(trained(first, x), 1, -1)
    found = trained(last, np.ascontiguousarray(np.moveaxis(x, 1, -1)))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
