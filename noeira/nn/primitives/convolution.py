"""Convolutional layers over one, two or three axes, and their transposes."""

from __future__ import annotations

import math
from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.orders import WEIGHTS
from noeira.nn.core.extents import extent, per_axis
from noeira.nn.core.parameters import Param
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice, flag, size
from noeira.nn.core.unify import Misfit
from noeira.nn.primitives.images import Images, spanning

__all__ = [
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
]


class Convolution(Images):
    """The parent of layers whose parameters are a weight of convolutions and a bias."""

    IC: int
    OC: int
    K: Any
    STRIDE: Any
    PADDING: Any
    DILATION: Any
    GROUPS: int
    BIAS: bool

    @classmethod
    def check(cls) -> None:
        most = math.gcd(cls.IC, cls.OC)
        for name in ("IC", "OC"):
            if getattr(cls, name) % cls.GROUPS:
                good = (str(n) for n in range(1, most + 1) if most % n == 0)
                raise CompositionError(
                    f"{cls!r}: groups={cls.GROUPS} does not divide {name}={getattr(cls, name)}: "
                    f"each group has as many channels, so groups may be {' or '.join(good)}"
                )
        super().check()

    @classmethod
    def compose(cls) -> Signature:
        made = [cls.made_length(axis) for axis in cls.letters]
        ends = (("IC", list(cls.letters)), ("OC", made))
        first = not cls.channels_last()
        sides = [[channels, *axes] if first else [*axes, channels] for channels, axes in ends]
        text = " -> ".join(f"({', '.join(axes)})" for axes in sides)
        return parse_signature(text, cls.__name__).filled(cls.sizes)

    @classmethod
    def made_length(cls, axis: str) -> str:
        """The length of an axis of what it gives, as an expression."""
        raise NotImplementedError

    @classmethod
    def numbers(cls, name: str) -> tuple[int, ...]:
        """A parameter as a number for each axis."""
        return per_axis(getattr(cls, name), len(cls.letters))

    @classmethod
    def spans(cls) -> tuple[int, ...]:
        """From the first pixel of a window to behind its last one, along each axis."""
        pairs = zip(cls.numbers("K"), cls.numbers("DILATION"), strict=True)
        return tuple(dilation * (kernel - 1) + 1 for kernel, dilation in pairs)

    @classmethod
    def emitted(cls, scope: Scope, op: str, x: Value, **attrs: Any) -> Value:
        """One node of a convolution of x."""
        count, last = len(cls.letters), cls.channels_last()
        weight = scope.param("weight")
        if last:
            weight = scope.emit("stored", weight, order=WEIGHTS[count + 2])
        return scope.emit(
            op,
            x,
            weight,
            *([scope.param("bias")] if cls.BIAS else []),
            stride=unless(cls.STRIDE, 1, count),
            padding=unless(cls.PADDING, 0, count),
            dilation=unless(cls.DILATION, 1, count),
            groups=cls.GROUPS,
            channels_last=last,
            **attrs,
        )


def unless(value: Any, usual: int, axes: int) -> tuple[int, ...]:
    """A number for each axis; none where they are as usual, so that texts say what is not."""
    return () if value == usual else per_axis(value, axes)


class Forward(Convolution):
    """The parent of convolutions: windows of the image times filters."""

    @classmethod
    def made_length(cls, axis: str) -> str:
        span = f"DILATION{axis}*(K{axis}-1)+1"
        return f"({axis}+2*PADDING{axis}-({span}))//STRIDE{axis}+1"

    @classmethod
    def because(cls, misfit: Misfit) -> str:
        small = spanning(cls.spans(), cls.PADDING) if misfit.empty else ""
        return small or super().because(misfit)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return cls.emitted(scope, "convolution", x)


class Conv1D(Forward):
    """y[f] = Σ x[c] ⋆ weight[f, c] + bias[f], (IC, L) -> (OC, (L + 2·PADDING - DILATION·(K - 1)
    - 1)//STRIDE + 1): the cross-correlation that PyTorch's `Conv1d` is.

    Parameters: `weight` [OC, IC/GROUPS, K], decayed; `bias` [OC], not decayed, switched off by
    bias=False. axes="nlc" takes and gives (L, IC) and (…, OC).
    """

    IC = size()
    OC = size()
    K = extent("L")
    STRIDE = extent("L", 1)
    PADDING = extent("L", 0, least=0)
    DILATION = extent("L", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("ncl", "nlc")
    letters = "L"
    weight = Param(
        *("OC", "IC//GROUPS", "KL"), fans=("IC//GROUPS*KL", "OC//GROUPS*KL"), order="lio"
    )
    bias = Param("OC", init="bias", when="BIAS")


class Conv2D(Forward):
    """y[f] = Σ x[c] ⋆ weight[f, c] + bias[f], (IC, H, W) -> (OC, (H + 2·PADDING - DILATION·(K - 1)
    - 1)//STRIDE + 1, …): the cross-correlation that PyTorch's `Conv2d` is.

    K, STRIDE, PADDING and DILATION are a number or a pair, for H and W. GROUPS: channels that are
    convolved by themselves; GROUPS = IC is a depthwise convolution. Parameters: `weight` [OC,
    IC/GROUPS, K, K], decayed; `bias` [OC], not decayed, switched off by bias=False. axes="nhwc"
    takes and gives (H, W, IC) and (…, OC).
    """

    IC = size()
    OC = size()
    K = extent("HW")
    STRIDE = extent("HW", 1)
    PADDING = extent("HW", 0, least=0)
    DILATION = extent("HW", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("nchw", "nhwc")
    letters = "HW"
    weight = Param(
        *("OC", "IC//GROUPS", "KH", "KW"),
        fans=("IC//GROUPS*KH*KW", "OC//GROUPS*KH*KW"),
        order="hwio",
    )
    bias = Param("OC", init="bias", when="BIAS")


class Conv3D(Forward):
    """The same over three axes, (IC, D, H, W) -> (OC, …), as PyTorch's `Conv3d`.

    Parameters: `weight` [OC, IC/GROUPS, K, K, K], `bias` [OC]. axes="ndhwc" takes and gives
    (D, H, W, IC) and (…, OC).
    """

    IC = size()
    OC = size()
    K = extent("DHW")
    STRIDE = extent("DHW", 1)
    PADDING = extent("DHW", 0, least=0)
    DILATION = extent("DHW", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("ncdhw", "ndhwc")
    letters = "DHW"
    weight = Param(
        *("OC", "IC//GROUPS", "KD", "KH", "KW"),
        fans=("IC//GROUPS*KD*KH*KW", "OC//GROUPS*KD*KH*KW"),
        order="dhwio",
    )
    bias = Param("OC", init="bias", when="BIAS")


class Transposed(Convolution):
    """The parent of transposed convolutions: each pixel gives a window, filters times it, and
    windows are added up.
    """

    OUTPUT_PADDING: Any

    @classmethod
    def check(cls) -> None:
        strides, more = cls.numbers("STRIDE"), cls.numbers("OUTPUT_PADDING")
        dilations = cls.numbers("DILATION")
        if any(n >= max(s, d) for n, s, d in zip(more, strides, dilations, strict=True)):
            raise CompositionError(
                f"{cls!r}: output_padding={cls.OUTPUT_PADDING} must be less than the stride or the "
                "dilation: it chooses among sizes that the same convolution makes as many pixels of"
            )
        super().check()

    @classmethod
    def made_length(cls, axis: str) -> str:
        span = f"DILATION{axis}*(K{axis}-1)+1"
        return f"({axis}-1)*STRIDE{axis}-2*PADDING{axis}+{span}+OUTPUT_PADDING{axis}"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        lengths = cls.size_of(x)
        numbers = map(cls.numbers, ("K", "STRIDE", "PADDING", "DILATION", "OUTPUT_PADDING"))
        size = tuple(
            (length - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + more
            for length, kernel, stride, padding, dilation, more in zip(
                lengths, *numbers, strict=True
            )
        )
        return cls.emitted(scope, "transposed_convolution", x, size=size)


class Conv1DTranspose(Transposed):
    """The adjoint of Conv1D, (IC, L) -> (OC, (L - 1)·STRIDE - 2·PADDING + DILATION·(K - 1) + 1 +
    OUTPUT_PADDING), as PyTorch's `ConvTranspose1d`.

    Parameters: `weight` [IC, OC/GROUPS, K], decayed; `bias` [OC], not decayed.
    """

    IC = size()
    OC = size()
    K = extent("L")
    STRIDE = extent("L", 1)
    PADDING = extent("L", 0, least=0)
    OUTPUT_PADDING = extent("L", 0, least=0)
    DILATION = extent("L", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("ncl", "nlc")
    letters = "L"
    weight = Param(
        *("IC", "OC//GROUPS", "KL"), fans=("IC//GROUPS*KL", "OC//GROUPS*KL"), order="lio"
    )
    bias = Param("OC", init="bias", when="BIAS")


class Conv2DTranspose(Transposed):
    """The adjoint of Conv2D, (IC, H, W) -> (OC, (H - 1)·STRIDE - 2·PADDING + DILATION·(K - 1) + 1 +
    OUTPUT_PADDING, …), as PyTorch's `ConvTranspose2d`.

    Parameters: `weight` [IC, OC/GROUPS, K, K], decayed; `bias` [OC], not decayed.
    """

    IC = size()
    OC = size()
    K = extent("HW")
    STRIDE = extent("HW", 1)
    PADDING = extent("HW", 0, least=0)
    OUTPUT_PADDING = extent("HW", 0, least=0)
    DILATION = extent("HW", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("nchw", "nhwc")
    letters = "HW"
    weight = Param(
        *("IC", "OC//GROUPS", "KH", "KW"),
        fans=("IC//GROUPS*KH*KW", "OC//GROUPS*KH*KW"),
        order="hwio",
    )
    bias = Param("OC", init="bias", when="BIAS")


class Conv3DTranspose(Transposed):
    """The adjoint of Conv3D, as PyTorch's `ConvTranspose3d`.

    Parameters: `weight` [IC, OC/GROUPS, K, K, K], decayed; `bias` [OC], not decayed.
    """

    IC = size()
    OC = size()
    K = extent("DHW")
    STRIDE = extent("DHW", 1)
    PADDING = extent("DHW", 0, least=0)
    OUTPUT_PADDING = extent("DHW", 0, least=0)
    DILATION = extent("DHW", 1)
    GROUPS = size(1)
    BIAS = flag(True)
    AXES = choice("ncdhw", "ndhwc")
    letters = "DHW"
    weight = Param(
        *("IC", "OC//GROUPS", "KD", "KH", "KW"),
        fans=("IC//GROUPS*KD*KH*KW", "OC//GROUPS*KD*KH*KW"),
        order="dhwio",
    )
    bias = Param("OC", init="bias", when="BIAS")
