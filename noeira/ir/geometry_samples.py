"""What the sweeps try convolutions on: a few of each class of kernels."""

from __future__ import annotations

from typing import Any

from noeira.ir.geometry import Sizes
from noeira.ir.samples import Draw, f32
from noeira.ir.types import TensorType


def with_bias(number: int, channels: int) -> tuple[Draw, ...]:
    """The bias of a sample: every other one has one."""
    return () if number % 2 else (Draw(f32(channels)),)


def case(
    batch: int,
    channels: int,
    filters: int,
    size: Sizes,
    kernel: Sizes,
    out: Sizes,
    groups: int = 1,
    **attrs: Any,
) -> tuple[TensorType, TensorType, TensorType, dict[str, Any]]:
    """x, weight and y of a sample, channels last, and its attributes."""
    options = {**attrs, "channels_last": True} | ({"groups": groups} if groups > 1 else {})
    x, y = f32(batch, *size, channels), f32(batch, *out, filters)
    return x, f32(*kernel, channels // groups, filters), y, options


# Of each class of kernels one at least: 3x3 with stride 1 and ragged edges, a stem of few channels,
# stride 2, 1x1, dilation, groups, depthwise, one and three axes, unlike sides, an image with fewer
# columns than the kernel.
CASES = (
    case(2, 5, 17, (5, 7), (3, 3), (5, 7), padding=(1, 1)),
    case(1, 16, 16, (8, 8), (3, 3), (8, 8), padding=(1, 1)),
    case(2, 3, 7, (9, 6), (3, 3), (4, 3), stride=(2, 2), padding=(0, 1)),
    case(1, 33, 9, (4, 4), (1, 1), (2, 2), stride=(2, 2)),
    case(2, 9, 18, (3, 5), (1, 1), (3, 5)),
    case(1, 4, 6, (7, 9), (3, 2), (3, 8), dilation=(2, 1)),
    case(2, 6, 4, (5, 5), (3, 3), (5, 5), groups=2, padding=(1, 1)),
    case(1, 19, 19, (6, 5), (3, 3), (3, 3), groups=19, stride=(2, 2), padding=(1, 1)),
    case(2, 3, 5, (11,), (5,), (5,), stride=(2,), padding=(1,)),
    case(1, 2, 3, (3, 4, 5), (2, 3, 2), (2, 2, 4)),
    case(1, 3, 8, (8, 5), (7, 7), (4, 3), stride=(2, 2), padding=(3, 3)),
    case(1, 2, 3, (4, 4), (3, 3), (4, 3), padding=(0, 1, 2, 0)),
)
