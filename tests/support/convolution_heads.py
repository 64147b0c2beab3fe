"""Convolutions with element-wise ops before them in their kernels, and the kernels of the parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from fused_cases import Group, joined

from noeira.ir.builder import Builder
from noeira.ir.geometry_samples import CASES, case
from noeira.ir.graph import Value
from noeira.ir.types import TensorType

NAMES = ("convolution", "transposed_convolution", "convolution_weight")
# Beside those of the sweeps: rows and columns that are taken some at a time, groups of a vector and
# of several channels, one tap.
SHAPES = (
    *CASES,
    case(1, 40, 24, (5, 6), (3, 3), (5, 6), padding=(1, 1)),
    case(2, 16, 48, (4, 5), (1, 1), (4, 5), groups=2),
    case(1, 32, 8, (5, 5), (1, 1), (5, 5)),
    case(1, 36, 36, (5, 9), (3, 3), (5, 9), groups=36, padding=(1, 1)),
)


def before(builder: Builder, x: Value, kind: int) -> Value:
    """Ops before a convolution that make no 0 of 0: of operands per channel, per image, one number,
    whole images; or of x alone.
    """
    given = x.type
    ones = (1,) * (len(given.shape) - 2)

    def other(name: str, *shape: int) -> Value:
        return builder.input(name, TensorType(given.dtype, shape))

    if kind == 0:
        shift, gain = other("shift", given.shape[-1]), other("gain", given.shape[-1])
        scaled = builder.emit("multiply", builder.emit("subtract", x, shift), gain)
        return builder.emit("sigmoid", scaled)
    if kind == 1:
        image = other("image", given.shape[0], *ones, 1)
        both = other("both", given.shape[0], *ones, given.shape[-1])
        shifted = builder.emit("add", builder.emit("multiply", x, image), both)
        one = builder.emit("multiply", shifted, other("one"))
        return builder.emit("exp", builder.emit("add", one, other("residual", *given.shape)))
    return builder.emit("exp", builder.emit("scale", x, factor=0.7))


def headed(name: str, shape: tuple[Any, ...], kind: int, dtype: str, tail: bool) -> Group:
    """One of the three ops with a head; tail: with a bias, where there may be one, and ops after
    it, of constants too.
    """
    x, weight, d, attrs = shape
    operands = {
        "convolution": (x, weight, {}),
        "transposed_convolution": (d, weight, {"size": x.shape[1:-1]}),
        "convolution_weight": (x, d, {"size": weight.shape[:-2]}),
    }
    image, factor, more = operands[name]

    def build(builder: Builder) -> tuple[Value, ...]:
        first = builder.input("x", TensorType(dtype, image.shape))
        given = [before(builder, first, kind), builder.input("f", TensorType(dtype, factor.shape))]
        channels = d.shape[-1] if name == "convolution" else x.shape[-1]
        if tail and name != "convolution_weight":
            given.append(builder.input("bias", TensorType(dtype, (channels,))))
        made = builder.emit(name, *given, **attrs, **more)
        if not tail:
            return (made,)
        row = builder.input("row", TensorType(dtype, made.type.shape[-1:]))
        after = builder.emit("add", builder.emit("scale", made, factor=0.3), row)
        return made, builder.emit("sigmoid", after)

    label = f"{name} {image} {factor} {attrs} head {kind} {dtype}{' tail' * tail}"
    return joined(label, build)


@cache
def headed_groups(dtype: str) -> tuple[Group, ...]:
    """All shapes with some head and some tail, each op."""

    def made() -> Iterator[Group]:
        for number, shape in enumerate(SHAPES):
            for turn, name in enumerate(NAMES):
                yield headed(name, shape, (number + turn) % 3, dtype, (number + turn) % 2 == 0)

    return tuple(made())
