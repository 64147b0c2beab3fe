"""The geometry of windows that move over images: which cells each has, axis by axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.geometry import Sizes, arranged, image_of, paddings, per_axis
from noeira.ir.types import TensorType


@dataclass(frozen=True)
class WindowAttrs(graph.Attrs):
    """kernel: cells of a window along each axis. stride: from one window to the next, by default
    the kernel. padding: cells that are not there, on both sides of each axis, or before all axes,
    then behind them. windows: in place of these three, how many windows share each axis: window o
    of n begins at cell ⌊o·size/n⌋ and ends before cell ⌈(o+1)·size/n⌉.
    channels_last: whether images are [N, *S, C], else [N, C, *S].
    """

    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    channels_last: bool = False


@dataclass(frozen=True)
class MaximumAttrs(WindowAttrs):
    """dilation: from one cell of a window to the next, 1 along each axis by default."""

    dilation: tuple[int, ...] = ()


@dataclass(frozen=True)
class SumAttrs(WindowAttrs):
    """scale: a factor. mean: whether a sum is divided by how many cells its window has. counted:
    of the padding so many cells on each side of an axis count as cells then.
    """

    scale: float = 1.0
    mean: bool = False
    counted: tuple[int, ...] = ()


@dataclass(frozen=True)
class SpreadAttrs(SumAttrs):
    """size: of the result along the axes of the image."""

    size: tuple[int, ...] = ()


@dataclass(frozen=True)
class WindowAxis:
    """How windows lie along an axis of `size` cells.

    Window o has the cells begin(o), begin(o) + dilation, …, `kernel` of them, as far as there are
    such cells: `before` are missing in front of the axis. even: windows share the axis, as
    `WindowAttrs.windows` says, and have no kernel. out: windows. counted: missing cells that count
    on each side.
    """

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1
    counted: int = 0
    even: bool = False

    @property
    def span(self) -> int:
        """From the first cell of a window to behind its last one."""
        return self.dilation * (self.kernel - 1) + 1

    def begin(self, window: int) -> int:
        """Where a window begins, perhaps before the axis."""
        return self.stride * window - self.before

    def cells(self, window: int) -> range:
        """The cells of a window."""
        if self.even:
            return range(window * self.size // self.out, -(-(window + 1) * self.size // self.out))
        begin = self.begin(window)
        missing = max(0, -(begin // self.dilation))
        return range(
            begin + missing * self.dilation, min(begin + self.span, self.size), self.dilation
        )

    def count(self, window: int) -> int:
        """Cells of a window that count in a mean; there is no dilation."""
        if self.even:
            return len(self.cells(window))
        begin = self.begin(window)
        end = min(begin + self.kernel, self.size + self.counted)
        return end - max(begin, -self.counted)

    @property
    def counts(self) -> tuple[int, ...]:
        """Those of all windows."""
        return tuple(map(self.count, range(self.out)))

    @property
    def same_count(self) -> int:
        """How many cells of every window count; 0 if these numbers differ."""
        first, *others = set(self.counts)
        return 0 if others else first

    @property
    def tiles(self) -> bool:
        """Whether each cell is in one window, and windows have no other cells."""
        exact = self.before == 0 and self.kernel * self.out == self.size
        return not self.even and exact and self.stride == self.kernel and self.dilation == 1


Axes = tuple[WindowAxis, ...]


def axes_of(name: str, attrs: WindowAttrs, size: Sizes) -> Axes:
    """The windows along each axis of images of a size.

    Raises ShapeError for attributes that do not fit, and for a window of which no cell is there.
    """
    count = len(size)
    if attrs.windows:
        return shared_axes(name, attrs, size)
    if not attrs.kernel:
        raise ShapeError(
            f"{name}: it needs a kernel, cells along each axis, or a number of windows"
        )
    kernel = per_axis(name, "kernel", attrs.kernel, count, 1)
    stride = per_axis(name, "stride", attrs.stride or kernel, count, 1)
    dilation = per_axis(name, "dilation", getattr(attrs, "dilation", ()), count, 1)
    counted = per_axis(name, "counted", getattr(attrs, "counted", ()), count, 0)
    before, after = paddings(name, attrs.padding, count)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    padded = [sum(one) for one in zip(before, size, after, strict=True)]
    if any(span > length for span, length in zip(spans, padded, strict=True)):
        raise ShapeError(
            f"{name}: a window spans {spans}, more than the padded image has: {padded}"
        )
    found = tuple(
        WindowAxis(n, (length - span) // s + 1, k, s, b, d, c)
        for n, length, span, k, s, b, d, c in zip(
            *(size, padded, spans, kernel, stride, before, dilation, counted), strict=True
        )
    )
    for number, axis in enumerate(found):
        for window in range(axis.out):
            if not axis.cells(window):
                raise ShapeError(
                    f"{name}: window {window} along axis {number} has cells of padding alone: "
                    f"padding is {list(attrs.padding)}, the kernel {list(kernel)}"
                )
    return found


def shared_axes(name: str, attrs: WindowAttrs, size: Sizes) -> Axes:
    """The axes where a number of windows is given. Raises ShapeError."""
    windows = per_axis(name, "windows", attrs.windows, len(size), 1)
    if attrs.kernel or attrs.stride or attrs.padding or getattr(attrs, "dilation", ()):
        raise ShapeError(
            f"{name}: windows is given, from which all else follows: there is no kernel, stride, "
            "padding or dilation"
        )
    return tuple(
        WindowAxis(n, out, even=True)
        if n % out
        else WindowAxis(n, out, kernel=n // out, stride=n // out)
        for n, out in zip(size, windows, strict=True)
    )


def image_axes(name: str, attrs: WindowAttrs, x: TensorType) -> Axes:
    """The windows along each axis of images. Raises ShapeError."""
    return axes_of(name, attrs, image_of(name, x, attrs.channels_last)[2])


def spread_axes(name: str, attrs: SpreadAttrs, d: TensorType) -> Axes:
    """The windows along each axis, of which d has an element for each. Raises ShapeError."""
    out = image_of(name, d, attrs.channels_last)[2]
    size = per_axis(name, "size", attrs.size, len(out), 1)
    axes = axes_of(name, attrs, size)
    if (found := tuple(axis.out for axis in axes)) != out:
        raise ShapeError(
            f"{name}: images of {list(size)} have {list(found)} windows, {d} has {list(out)}"
        )
    return axes


def images_like(name: str, attrs: WindowAttrs, x: TensorType, size: Sizes) -> TensorType:
    """The type of images as x, of another size."""
    batch, channels, _ = image_of(name, x, attrs.channels_last)
    return TensorType(x.dtype, arranged(batch, channels, size, attrs.channels_last))


def results_of(name: str, attrs: WindowAttrs, x: TensorType) -> TensorType:
    """The type of images with an element for each window. Raises ShapeError."""
    axes = image_axes(name, attrs, x)
    return images_like(name, attrs, x, tuple(axis.out for axis in axes))


def cells_in_all(axes: Axes) -> int:
    """How many cells all windows of one channel of an image have together."""
    return math.prod(sum(len(axis.cells(o)) for o in range(axis.out)) for axis in axes)
