"""Pooling: the maximum or the mean of windows over images; and the nearest pixel of larger ones.

Images are (C, H, W), or (H, W, C) with `axes="nhwc"`; of one axis (C, L), of three (C, D, H, W).
Lengths follow from what a layer takes: `MaxPool2D[2]` halves any image.
"""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature
from noeira.nn.core.slots import choice, derived, flag, size
from noeira.nn.core.unify import Misfit
from noeira.nn.primitives.images import Images, spanning

__all__ = [
    "AdaptiveAvgPool2D",
    "AdaptiveMaxPool2D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool2D",
    "GlobalMaxPool2D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "Upsample",
    "Upsample2x",
]


class Pool(Images):
    """The parent of layers whose windows have K cells along each axis, begin STRIDE cells apart (K
    by default) and reach PADDING cells beyond the image.

    Along an axis of H cells there are ⌊(H + 2·PADDING − span)/STRIDE⌋ + 1 windows, of which each
    spans K cells, or with a dilation dilation·(K − 1) + 1. With `ceil` that is rounded up, so that
    no cell is left out, without windows that would begin behind the image and its padding in front.
    """

    op: ClassVar[str]
    K = size()
    STRIDE = size(None)
    PADDING = size(0, least=0)
    CEIL = flag(False)

    @classmethod
    def stride(cls) -> int:
        """From one window to the next."""
        return cls.STRIDE or cls.K

    @classmethod
    def span(cls) -> int:
        """From the first cell of a window to behind its last one."""
        return cls.K

    @classmethod
    def windows(cls) -> tuple[int, int]:
        """Numbers a, b so that there are ⌊(H + a)/b⌋ windows along an axis of H cells."""
        stride, padding = cls.stride(), cls.PADDING
        shorter = 2 * padding - cls.span() + stride
        return (min(shorter, padding) + stride - 1 if cls.CEIL else shorter), stride

    @classmethod
    def check(cls) -> None:
        super().check()
        if (most := cls.K // 2) < cls.PADDING:
            raise CompositionError(
                f"{cls!r}: padding must be at most {most}, half of K, not {cls.PADDING}"
            )

    @classmethod
    def compose(cls) -> Signature:
        more, stride = cls.windows()
        sign = "-" if more < 0 else "+"
        return cls.made_of(cls.image(*(f"({x} {sign} {abs(more)})//{stride}" for x in cls.letters)))

    @classmethod
    def because(cls, misfit: Misfit) -> str:
        small = spanning((cls.span(),), cls.PADDING) if misfit.empty else ""
        return small or super().because(misfit)

    @classmethod
    def attrs(cls, length: tuple[int, ...]) -> dict[str, Any]:
        """The attributes of the node, for images of this size."""
        axes, (more, stride) = len(length), cls.windows()
        found: dict[str, Any] = {"kernel": (cls.K,) * axes}
        if stride != cls.K:
            found["stride"] = (stride,) * axes
        reached = (stride * ((n + more) // stride - 1) + cls.span() - cls.PADDING for n in length)
        behind = [max(cls.PADDING, end - n) for end, n in zip(reached, length, strict=True)]
        if any(padding != cls.PADDING for padding in behind):
            found["padding"] = (*(cls.PADDING,) * axes, *behind)
        elif cls.PADDING:
            found["padding"] = (cls.PADDING,) * axes
        return found | cls.order()

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit(cls.op, x, **cls.attrs(cls.size_of(x)))


class MaxPool(Pool):
    """The parent of layers of maxima. Padding is never the maximum; NaN is, where it is there."""

    op = "max_pool"
    DILATION = size(1)

    @classmethod
    def span(cls) -> int:
        return cls.DILATION * (cls.K - 1) + 1

    @classmethod
    def attrs(cls, length: tuple[int, ...]) -> dict[str, Any]:
        dilation = {"dilation": (cls.DILATION,) * len(length)} if cls.DILATION > 1 else {}
        return super().attrs(length) | dilation


class MaxPool1D(MaxPool):
    """The maximum of each window of a sequence, (C, L) -> (C, ⌊(L + 2·PADDING − span)/STRIDE⌋ + 1):
    `MaxPool1D[2]`, `MaxPool1D.of(3, 2, padding=1)`.

    A window spans dilation·(K − 1) + 1 cells. Options: s, the stride (K by default), p, the
    padding, ceil, dilation, axes ("ncl" or "nlc").
    """

    AXES = choice("ncl", "nlc")
    letters = "L"


class MaxPool2D(MaxPool):
    """The maximum of each window of an image, (C, H, W) -> (C, ⌊(H + 2·PADDING − span)/STRIDE⌋ + 1,
    …): `MaxPool2D[2]`, `MaxPool2D.of(3, 2, padding=1)`.

    A window spans dilation·(K − 1) + 1 cells. Options: s, the stride (K by default), p, the
    padding, ceil, dilation, axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")


class MaxPool3D(MaxPool):
    """The maximum of each window of a volume, (C, D, H, W) -> (C, ⌊(D + 2·PADDING − span)/STRIDE⌋ +
    1, …): `MaxPool3D[2]`, `MaxPool3D.of(3, 2, padding=1)`.

    A window spans dilation·(K − 1) + 1 cells. Options: s, the stride (K by default), p, the
    padding, ceil, dilation, axes ("ncdhw" or "ndhwc").
    """

    AXES = choice("ncdhw", "ndhwc")
    letters = "DHW"


class AvgPool(Pool):
    """The parent of layers of means.

    count_padding: whether cells of the padding count as zeros of the mean; what a window has beyond
    that, rounded up by `ceil`, never counts.
    """

    op = "window_sum"
    COUNT_PADDING = flag(True)

    @classmethod
    def attrs(cls, length: tuple[int, ...]) -> dict[str, Any]:
        counts = cls.COUNT_PADDING and cls.PADDING
        counted = {"counted": (cls.PADDING,) * len(length)} if counts else {}
        return super().attrs(length) | {"mean": True} | counted


class AvgPool1D(AvgPool):
    """The mean of each window of a sequence, (C, L) -> (C, ⌊(L + 2·PADDING − K)/STRIDE⌋ + 1):
    `AvgPool1D[2]`, `AvgPool1D.of(3, 2, padding=1)`.

    Options: stride (K by default), padding, ceil, count_padding, axes
    ("ncl" or "nlc").
    """

    AXES = choice("ncl", "nlc")
    letters = "L"


class AvgPool2D(AvgPool):
    """The mean of each window of an image, (C, H, W) -> (C, ⌊(H + 2·PADDING − K)/STRIDE⌋ + 1, …):
    `AvgPool2D[2]`, `AvgPool2D.of(3, 2, padding=1)`.

    Options: stride (K by default), padding, ceil, count_padding, axes
    ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")


class AvgPool3D(AvgPool):
    """The mean of each window of a volume, (C, D, H, W) -> (C, ⌊(D + 2·PADDING − K)/STRIDE⌋ + 1,
    …): `AvgPool3D[2]`, `AvgPool3D.of(3, 2, padding=1)`.

    Options: stride (K by default), padding, ceil, count_padding, axes
    ("ncdhw" or "ndhwc").
    """

    AXES = choice("ncdhw", "ndhwc")
    letters = "DHW"


class AdaptivePool(Images):
    """The parent of layers of OH by OW windows that share an image: window o of n along an axis of
    H cells begins at cell ⌊o·H/n⌋ and ends before ⌈(o + 1)·H/n⌉.
    """

    op: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    OH = size()
    OW = size()

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of(cls.image("OH", "OW"))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit(cls.op, x, windows=(cls.OH, cls.OW), **cls.options, **cls.order())


class AdaptiveAvgPool2D(AdaptivePool):
    """The mean of each of OH by OW windows that share an image, (C, H, W) -> (C, OH, OW):
    `AdaptiveAvgPool2D[7, 7]`.

    Window o of n along an axis of H cells begins at cell ⌊o·H/n⌋ and ends before ⌈(o + 1)·H/n⌉.
    Option: axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")
    op, options = "window_sum", {"mean": True}


class AdaptiveMaxPool2D(AdaptivePool):
    """The maximum of each of OH by OW windows that share an image, (C, H, W) -> (C, OH, OW):
    `AdaptiveMaxPool2D[7, 7]`.

    Window o of n along an axis of H cells begins at cell ⌊o·H/n⌋ and ends before ⌈(o + 1)·H/n⌉.
    Option: axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")
    op = "max_pool"


class GlobalPool(Images):
    """The parent of layers that make one number of each channel."""

    op: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of("(C)")

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        pooled = scope.emit(cls.op, x, windows=(1, 1), **cls.options, **cls.order())
        batch, channels = x.type.shape[0], x.type.shape[-1 if cls.channels_last() else 1]
        return scope.emit("reshape", pooled, shape=(batch, channels))


class GlobalAvgPool2D(GlobalPool):
    """The mean of each channel of an image, (C, H, W) -> (C).

    Option: axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")
    op, options = "window_sum", {"mean": True}


class GlobalMaxPool2D(GlobalPool):
    """The maximum of each channel of an image, (C, H, W) -> (C).

    Option: axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")
    op = "max_pool"


class Upsample(Images):
    """Each pixel F by F times, the nearest one of an image F times as large, (C, H, W) -> (C, F·H,
    F·W): `Upsample[4]`. Option: axes ("nchw" or "nhwc").
    """

    F = size()
    AXES = choice("nchw", "nhwc")

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of(cls.image("F*H", "F*W")).filled({"F": cls.F})

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        size = tuple(cls.F * length for length in cls.size_of(x))
        kernel = (cls.F,) * len(size)
        return scope.emit("window_spread", x, kernel=kernel, size=size, **cls.order())


class Upsample2x(Upsample):
    """Each pixel twice along both axes, (C, H, W) -> (C, 2·H, 2·W).

    Option: axes ("nchw" or "nhwc").
    """

    F = derived(lambda _: 2)
