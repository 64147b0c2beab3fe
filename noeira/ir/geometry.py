"""The geometry of convolutions: the numbers that images, weights and attributes are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noeira.errors import ShapeError
from noeira.ir.types import TensorType

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """The numbers of a convolution, whichever of its three ops it is.

    batch, channels, filters: N, C, F; size, out, kernel: axes of x, of y and of the weight. before,
    after: zeros on the two sides of each axis.
    """

    batch: int
    channels: int
    filters: int
    groups: int
    size: Sizes
    out: Sizes
    kernel: Sizes
    stride: Sizes
    before: Sizes
    after: Sizes
    dilation: Sizes

    @property
    def channels_of_group(self) -> int:
        """The channels that a filter reads."""
        return self.channels // self.groups

    @property
    def filters_of_group(self) -> int:
        """The filters that read a channel."""
        return self.filters // self.groups

    @property
    def taps(self) -> int:
        """Elements of a filter of one channel."""
        return math.prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Elements of a channel of the result."""
        return math.prod(self.out)

    @property
    def flops(self) -> int:
        """Operations of each of the three ops, a multiply-add counting as two."""
        return 2 * self.batch * self.pixels * self.filters * self.channels_of_group * self.taps

    def image(self, dtype: str, channels_last: bool) -> TensorType:
        """The type of x."""
        return TensorType(dtype, arranged(self.batch, self.channels, self.size, channels_last))

    def result(self, dtype: str, channels_last: bool) -> TensorType:
        """The type of y."""
        return TensorType(dtype, arranged(self.batch, self.filters, self.out, channels_last))

    def weight(self, dtype: str, channels_last: bool) -> TensorType:
        """The type of the weight."""
        if channels_last:
            return TensorType(dtype, (*self.kernel, self.channels_of_group, self.filters))
        return TensorType(dtype, (self.filters, self.channels_of_group, *self.kernel))


def arranged(batch: int, channels: int, size: Sizes, channels_last: bool) -> Sizes:
    """The shape of images."""
    return (batch, *size, channels) if channels_last else (batch, channels, *size)


def image_of(name: str, x: TensorType, channels_last: bool) -> tuple[int, int, Sizes]:
    """Batch, channels and axes of images. Raises ShapeError if they are none."""
    if not 3 <= len(x.shape) <= 5:
        axes = "[N, *S, C]" if channels_last else "[N, C, *S]"
        raise ShapeError(f"{name}: {x} are no images, {axes} of one, two or three axes")
    batch, *inner = x.shape
    channels = inner.pop() if channels_last else inner.pop(0)
    return batch, channels, tuple(inner)


def weight_of(
    name: str, weight: TensorType, axes: int, channels_last: bool
) -> tuple[int, int, Sizes]:
    """Filters, channels of a group and axes of a weight. Raises ShapeError if it is none."""
    if len(weight.shape) != axes + 2:
        shape = "[*K, C/groups, F]" if channels_last else "[F, C/groups, *K]"
        raise ShapeError(f"{name}: {weight} is no weight, {shape}, for images of {axes} axes")
    if channels_last:
        *kernel, channels, filters = weight.shape
    else:
        filters, channels, *kernel = weight.shape
    return filters, channels, tuple(kernel)


def per_axis(name: str, what: str, given: Sizes, axes: int, default: int) -> Sizes:
    """A number for each axis. Raises ShapeError."""
    found = given or (default,) * axes
    if len(found) != axes or min(found) < default:
        raise ShapeError(
            f"{name}: {what} is {list(found)}, not {axes} numbers of at least {default}"
        )
    return found


def paddings(name: str, given: Sizes, axes: int) -> tuple[Sizes, Sizes]:
    """Zeros before and behind each axis. Raises ShapeError."""
    both = given * 2 if len(given) == axes else given or (0,) * (2 * axes)
    if len(both) != 2 * axes or min(both) < 0:
        raise ShapeError(
            f"{name}: padding is {list(given)}, not {axes} numbers of at least 0, for both sides "
            f"of each axis, or {2 * axes}, before and behind"
        )
    return both[:axes], both[axes:]
