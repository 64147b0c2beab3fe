"""What is said of networks of images that cannot be: why, where, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.errors import NoeiraError
from noeira.nn import (
    SGD,
    BatchNorm1D,
    BatchNorm2D,
    Concat,
    Conv1D,
    Conv2D,
    Conv2DBatchNormReLU,
    Conv2DReLU,
    CrossEntropy,
    Flatten,
    Fused,
    Graph,
    GroupNorm,
    InputSlot,
    Linear,
    MaxPool1D,
    MaxPool2D,
    Node,
    Parallel,
    ProjectedResidual,
    RandomCropFlip,
    ReLU,
    Residual,
    Sequential,
    SkipConcat,
    Standardize,
    ToNCHW,
    Transpose,
    Upsample2x,
)

HALVED = Sequential[MaxPool2D[2], Upsample2x]
LAST = Conv2D.of(3, 8, 3, axes="nhwc")
CONV = Conv2D.of(3, 8, 3, padding=1)
NORM = BatchNorm1D.of(4, momentum=0.2)
PIXELS = Standardize[(0.5,) * 3, (0.2,) * 3]
X = InputSlot["x", (3, 32, 32)]
ROW = np.ones((9, 3), np.float32), np.zeros(9, np.int32)
IMAGES = np.zeros((2, 3, 8, 8), np.uint8)


def run(net: Any, x: np.ndarray) -> None:
    """Run a network on images of 8 by 8."""
    noeira.compile(net, input=(3, 8, 8), target="reference").forward(x)


def last_batch() -> None:
    """Train with a last batch of one sample."""
    net = Sequential[BatchNorm1D[3], Linear[3, 2]]
    options: dict[str, Any] = {"loss": CrossEntropy, "optimizer": SGD, "target": "reference"}
    noeira.Trainer(net, batch=4, **options).fit(ROW, epochs=1, progress=False)


ODD = "W must be 2*(W//2), which it is not for W = 15, but for 14 and 16"
SMALL = "; take larger images, more padding or a smaller K"
ROWS: list[tuple[str, Callable[[], Any], str]] = [
    # An odd size beside what halves and doubles it.
    ("odd", lambda: Residual[HALVED].gives((3, 15, 15)), f"not (3, 15, 15): {ODD}"),
    (
        "odd-skip",
        lambda: Sequential[CONV, SkipConcat.of(HALVED, axis=-3)].gives((3, 15, 15)),
        f"\n\n  {ODD}.",
    ),
    # One layer with channels last, the next one with channels first.
    (
        "mixed",
        lambda: Sequential[LAST, ReLU, BatchNorm2D[8]],
        "gives (H - 2, W - 2, 8)\n\n  Change BatchNorm2D[8] to BatchNorm2D.of(8, axes='nhwc'), or "
        "put ToNCHW between them.",
    ),
    (
        "mixed-front",
        lambda: Sequential[RandomCropFlip[4], LAST],
        "Change Conv2D.of(3, 8, 3, axes='nhwc') to Conv2D[3, 8, 3], or RandomCropFlip[4] to "
        "RandomCropFlip.of(4, axes='nhwc'), or put ToNHWC between them.",
    ),
    ("mixed-pixels", lambda: Sequential[PIXELS, LAST], "takes (H, W, 3): nhwc, not nchw"),
    (
        "mixed-graph",
        lambda: Graph[InputSlot["x"], Node["a", LAST, "x"], Node["b", MaxPool2D[2], "a"]],
        "takes (C, H, W): nchw, not nhwc\n\n  Change MaxPool2D[2] to MaxPool2D.of(2, axes='nhwc')",
    ),
    (
        "turned-shape",
        lambda: Conv2D[3, 8, 3].gives((32, 32, 3)),
        "not (32, 32, 3); of such images, x.transpose(0, 3, 1, 2) is nchw",
    ),
    (
        "turned-array",
        lambda: run(CONV, np.ones((2, 8, 8, 3), np.float32)),
        "x has shape (2, 8, 8, 3), it must be (N, 3, 8, 8): write x.transpose(0, 3, 1, 2)",
    ),
    # Another number of axes.
    (
        "sequences",
        lambda: Sequential[Conv1D[3, 4, 3], BatchNorm1D[4]],
        "Change BatchNorm1D[4] to BatchNorm1D.of(4, axes='ncl').",
    ),
    (
        "sequences-graph",
        lambda: Graph[InputSlot["x"], Node["a", Conv1D[3, 4, 3], "x"], Node["b", NORM, "a"]],
        "\n\n  Change BatchNorm1D.of(4, momentum=0.2) to "
        "BatchNorm1D.of(4, momentum=0.2, axes='ncl').",
    ),
    ("fewer-axes", lambda: Sequential[LAST, BatchNorm1D[8]], "BatchNorm2D.of(8, axes='nhwc')."),
    (
        "fewer-axes-pool",
        lambda: Sequential[CONV, MaxPool1D[2]],
        "takes (C, L): ncl, not nchw\n\n  Change MaxPool1D[2] to MaxPool2D[2].",
    ),
    (
        "fewer-axes-group",
        lambda: Sequential[Conv1D[3, 4, 3], GroupNorm[2, 4]],
        "\n\n  Change GroupNorm[2, 4] to GroupNorm.of(2, 4, axes='ncl').",
    ),
    # Images where rows go.
    (
        "rows",
        lambda: Sequential[CONV, ReLU, MaxPool2D[2], Linear[512, 10]].gives((3, 16, 16)),
        "gives (8, 8, 8)\n\n  Linear[512, 10] takes rows, not images. Write Flatten, "
        "Linear[512, 10] or GlobalAvgPool2D, Linear[8, 10].",
    ),
    (
        "rows-last",
        lambda: Sequential[LAST, Linear[512, 10]],
        "Write Flatten, Linear[512, 10] or GlobalAvgPool2D.of(axes='nhwc'), Linear[8, 10].",
    ),
    # Bytes and floats.
    (
        "bytes",
        lambda: run(CONV, IMAGES),
        "x is uint8; this program takes float32: for pixels from 0 to 255 let Standardize[mean, "
        "std] be the first layer, take data without raw=True, or write (x / 255).astype(np.float32",
    ),
    (
        "floats",
        lambda: run(PIXELS, IMAGES.astype(np.float32)),
        "x is float32; it must be integers, pixels from 0 to 255: give them as data with raw=True "
        "are, or leave out Standardize, which makes floats of them",
    ),
    (
        "bytes-behind",
        lambda: Sequential[RandomCropFlip[4], PIXELS],
        f"They differ in what their elements are. Put {PIXELS!r} in front of RandomCropFlip[4].",
    ),
    # Side by side along the channels.
    ("skip", lambda: SkipConcat[CONV], "Write SkipConcat.of(M, axis=-3), along the channels."),
    (
        "parallel",
        lambda: Parallel[CONV, Conv2D[3, 16, 1]],
        "may differ in the last axis only.\n\n  Write Parallel.of(A, B, …, axis=-3), along the",
    ),
    (
        "concat",
        lambda: Graph[X, Node["a", CONV, "x"], Node["y", Concat, "x", "a"]],
        "Change Concat to Concat.of(axis=-3)",
    ),
    # Another number of channels, or of pixels, beside the identity.
    (
        "residual",
        lambda: Residual[Conv2D.of(16, 32, 3, padding=1)],
        "\n  Or write ProjectedResidual[Conv2D.of(16, 32, 3, padding=1), Conv2D[16, 32, 1]].",
    ),
    (
        "residual-strided",
        lambda: Residual[Conv2D.of(8, 8, 3, 2, 1)].gives((8, 32, 32)),
        "not for W = 32; or write ProjectedResidual[…, Conv2D.of(8, 8, 1, stride=2)]",
    ),
    (
        "residual-smaller",
        lambda: Residual[Conv2D[16, 16, 3]],
        "\n\n  Images keep their size where stride is 1 and padding=K//2, K being odd.",
    ),
    (
        "last-batch",
        last_batch,
        "9 samples in batches of 4 end with 1; take another batch, or the first 8 samples, x[:8]: "
        "BatchNorm1D[3] takes statistics of a batch in training",
    ),
    (
        "fused",
        lambda: Fused[Conv2D[3, 16, 3], ReLU, MaxPool2D[2]],
        "max_pool after relu gains nothing: it reads from memory what relu stores\n\n"
        "  Write Sequential[Conv2DReLU[3, 16, 3], MaxPool2D[2]] for one kernel each.",
    ),
    # Windows, strides, groups and paddings.
    ("window", lambda: Conv2D[3, 8, 7].gives((3, 5, 5)), f"spans 7 cells of an axis{SMALL}"),
    (
        "window-inside",
        lambda: Sequential[CONV, Sequential[ReLU, MaxPool2D[8]]].gives((3, 5, 5)),
        "layers 0 and 1 of Sequential, given (8, 5, 5), do not fit\n\n    Sequential[ReLU, MaxPool",
    ),
    (
        "stride",
        lambda: Conv2D.of(3, 8, 3, stride=0),
        "stride must be a positive whole number, or a tuple of 2, for H and W, not 0",
    ),
    (
        "groups",
        lambda: Conv2D.of(4, 6, 3, groups=4),
        "groups=4 does not divide OC=6: each group has as many channels, so groups may be 1 or 2",
    ),
    (
        "same",
        lambda: Conv2D.of(3, 8, (1, 7), padding="same"),
        "padding is a number: write padding=(0, 3), which keeps the size at stride 1",
    ),
    ("same-pool", lambda: MaxPool2D.of(3, 1, padding="same"), "write padding=1, which keeps"),
    ("same-fused", lambda: Conv2DReLU[3, 8, 5, 1, "same"], "write padding=2, which keeps the size"),
    (
        "same-even",
        lambda: Conv2DBatchNormReLU.of(3, 8, 4, padding="same"),
        "padding is a number, of both sides, which keeps the size for an odd K alone",
    ),
    ("valid", lambda: Conv2D.of(3, 8, 3, padding="valid"), "leave it out, it is 0"),
    ("same-nothing", lambda: Conv2D.of(3, 8, "3", padding="same"), "K must be a positive whole"),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_what_is_said_of_images(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(NoeiraError, match=re.escape(message)):
        make()


def test_what_was_advised_fits() -> None:
    assert Sequential[LAST, ToNCHW, Conv2D[8, 4, 1]].gives((5, 6, 3)) == (4, 3, 4)
    assert Sequential[LAST, Transpose[-1, -3, -2], BatchNorm2D[8]].gives((5, 6, 3)) == (8, 3, 4)
    assert Sequential[CONV, Flatten, Linear[512, 10]].gives((3, 8, 8)) == (10,)
    strided = ProjectedResidual[Conv2D.of(8, 8, 3, 2, 1), Conv2D.of(8, 8, 1, stride=2)]
    assert strided.gives((8, 32, 32)) == (8, 16, 16)


def test_no_example_of_a_sample_where_its_size_must_fit() -> None:
    with pytest.raises(
        NoeiraError, match=r"can be anything; give the shape of a sample, input=\(…"
    ):
        Sequential[MaxPool2D[2], Flatten, Linear[512, 10]].solve()
