"""Normalisation of each sample by itself: of rows, and of the channels of images."""

from __future__ import annotations

from typing import ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.random import constant
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Param
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice, flag, number, size
from noeira.nn.primitives.by_channel import ByChannel

__all__ = [
    "ConvRMSNorm",
    "GroupNorm",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "LayerNorm",
    "LayerNormNoAffine",
    "RMSNorm",
]


class LayerNorm(Module):
    """(x − mean) / √(variance + eps) · gamma + beta along the last axis, (*, DIM) -> (*, DIM) (Ba
    et al. 2016): `LayerNorm[512]`.

    Parameters: `gamma` [DIM], which begins as ones; `beta` [DIM], switched off by
    `LayerNorm.of(DIM, bias=False)`.
    """

    DIM = size()
    EPS = number(1e-5, above=0.0)
    BIAS = flag(True)
    gamma = Param("DIM", init=constant(1.0))
    beta = Param("DIM", init="bias", when="BIAS")
    signature = "(*, DIM) -> (*, DIM)"
    pytorch_names: ClassVar[dict[str, str]] = {"gamma": "weight", "beta": "bias"}

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        beta = [scope.param("beta")] if cls.BIAS else []
        return scope.emit("layer_norm", x, scope.param("gamma"), *beta, eps=cls.EPS)[0]


class LayerNormNoAffine(Module):
    """(x − mean) / √(variance + eps) along the last axis, (*, DIM) -> (*, DIM), without parameters:
    `LayerNormNoAffine[512]`.
    """

    DIM = size()
    EPS = number(1e-5, above=0.0)
    signature = "(*, DIM) -> (*, DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("layer_norm", x, eps=cls.EPS)[0]


class RMSNorm(Module):
    """x / √(mean x² + eps) · gamma along the last axis, (*, DIM) -> (*, DIM) (Zhang and Sennrich
    2019): `RMSNorm[512]`. Parameter: `gamma` [DIM], which begins as ones.
    """

    DIM = size()
    EPS = number(1e-5, above=0.0)
    gamma = Param("DIM", init=constant(1.0))
    signature = "(*, DIM) -> (*, DIM)"
    pytorch_names: ClassVar[dict[str, str]] = {"gamma": "weight"}

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("rms_norm", x, scope.param("gamma"), eps=cls.EPS)[0]


class ConvRMSNorm(Module):
    """x / √(mean x² + eps) · gamma over the channels at each place of an image, (C, H, W) -> (C, H,
    W), or with `axes="nhwc"` (H, W, C). Parameter: `gamma` [C], which begins as ones.
    """

    C = size()
    EPS = number(1e-5, above=0.0)
    AXES = choice("nchw", "nhwc")
    gamma = Param("C", init=constant(1.0))
    pytorch_names: ClassVar[dict[str, str]] = {"gamma": "weight"}

    @classmethod
    def compose(cls) -> Signature:
        sample = "(C, H, W)" if cls.AXES == "nchw" else "(H, W, C)"
        return parse_signature(f"{sample} -> {sample}", cls.__name__).filled(cls.sizes)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        gamma = scope.param("gamma")
        if cls.AXES == "nhwc":
            return scope.emit("rms_norm", x, gamma, eps=cls.EPS)[0]
        here = scope if scope.group else scope.fused()
        samples, *places = x.type.shape[0], *x.type.shape[2:]
        squares = here.emit("multiply", x, x, hint="squares")
        mean = here.emit("sum", squares, axes=(1,), scale=1 / cls.C, hint="mean_square")
        rstd = here.emit("inverse_root", mean, eps=cls.EPS, hint="rstd")
        rstd = here.emit("reshape", rstd, shape=(samples, 1, *places))
        gamma = here.emit("reshape", gamma, shape=(cls.C, 1, 1))
        return here.emit("multiply", here.emit("multiply", x, rstd), gamma)


class OfSample(ByChannel):
    """The parent of what normalises the channels of each sample by themselves."""

    @classmethod
    def statistics(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        last = cls.channels_last()
        return scope.emit("channel_statistics", x, channels_last=last, by_sample=True)


class InstanceNorm(OfSample):
    """The parent of instance normalisation: (x − mean) / √(variance + eps) over all places of each
    channel of each sample (Ulyanov et al. 2016).
    """

    C = size()
    EPS = number(1e-5, above=0.0)
    AFFINE = flag(False)

    @classmethod
    def statistics(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        if scope.phase == "train" and x.type.size == x.type.shape[0] * cls.C:
            raise CompositionError(
                f"{cls!r} takes statistics of the places of each channel, and {x.type} has one: "
                "what it gives is 0"
            )
        return super().statistics(scope, x)


class InstanceNorm1D(InstanceNorm):
    """Instance normalisation of sequences, (C, L) -> (C, L), or with `axes="nlc"` (L, C):
    `InstanceNorm1D[64]`; with `affine=True` times `gamma` [C] plus `beta` [C].

    Raises CompositionError in training for sequences of one place.
    """

    AXES = choice("ncl", "nlc")


class InstanceNorm2D(InstanceNorm):
    """Instance normalisation of images, (C, H, W) -> (C, H, W), or with `axes="nhwc"` (H, W, C):
    `InstanceNorm2D[64]`; with `affine=True` times `gamma` [C] plus `beta` [C].

    Raises CompositionError in training for images of one place.
    """

    AXES = choice("nchw", "nhwc")


class GroupNorm(OfSample):
    """(x − mean) / √(variance + eps) · gamma + beta over each of so many groups of channels of each
    sample, (C, H, W) -> (C, H, W) (Wu and He 2018): `GroupNorm[32, 256]`; `axes` may be "nhwc",
    "ncl" or "nlc", too.

    Parameters, without `affine=False`: `gamma` [C], which begins as ones, and `beta` [C].
    """

    GROUPS = size()
    C = size()
    EPS = number(1e-5, above=0.0)
    AFFINE = flag(True)
    AXES = choice("nchw", "nhwc", "ncl", "nlc")

    @classmethod
    def check(cls) -> None:
        super().check()
        if cls.C % cls.GROUPS:
            raise CompositionError(
                f"{cls!r}: {cls.C} channels are not {cls.GROUPS} groups of as many each"
            )

    @classmethod
    def statistics(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        mean, variance = super().statistics(scope, x)
        each = cls.C // cls.GROUPS
        if each == 1:
            return mean, variance
        samples = x.type.shape[0]
        grouped = [
            scope.emit("reshape", one, shape=(samples, cls.GROUPS, each))
            for one in (mean, variance)
        ]

        def of_group(numbers: Value) -> Value:
            total = scope.emit("sum", numbers, axes=(-1,))
            return scope.emit("reshape", total, shape=(samples, cls.GROUPS, 1))

        def of_channel(numbers: Value) -> Value:
            spread = scope.emit("broadcast", numbers, shape=(samples, cls.GROUPS, each))
            return scope.emit("reshape", spread, shape=(samples, cls.C))

        whole = of_group(scope.emit("scale", grouped[0], factor=1 / each))
        apart = scope.emit("subtract", grouped[0], whole)
        around = scope.emit("add", grouped[1], scope.emit("multiply", apart, apart))
        spread = of_group(scope.emit("scale", around, factor=1 / each))
        return of_channel(whole), of_channel(spread)
