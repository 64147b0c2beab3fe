"""Layers that change the shape of a sample, or the order of its axes: the numbers stay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.ops.transposition import turn_of
from noeira.nn.core.binding import as_written, usage
from noeira.nn.core.expression import Axis, variable
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.several import axes, counts
from noeira.nn.core.signature import Pattern, Signature, parse_signature
from noeira.nn.core.slots import size
from noeira.nn.core.unify import elements

__all__ = [
    "DepthToSpace",
    "Flatten",
    "PixelShuffle",
    "Reshape",
    "SpaceTimeTranspose",
    "SpaceToDepth",
    "ToNCHW",
    "ToNHWC",
    "Transpose",
    "Transpose2D",
]


class Flatten(Module):
    """A sample as one row: (*) -> (N); `Flatten[N]` says how many numbers that are.
    `Flatten.of(axes=2)` joins the last two axes alone: (*, A, B) -> (*, A·B). It launches nothing.
    """

    N = size(None)
    AXES = size(0, least=0)

    @classmethod
    def compose(cls) -> Signature:
        length: Axis = variable("N") if cls.N is None else cls.N
        if not cls.AXES:
            whole = Pattern((), "*")
            return Signature((whole,), (Pattern((length,)),), counts=((whole, length),))
        joined = Pattern(tuple(variable(f"A{place}") for place in range(cls.AXES)))
        product = elements(joined)
        rules = () if cls.N is None else ((product, length),)
        made = product if cls.N is None else length
        return Signature((replace(joined, rest="*"),), (Pattern((made,), "*"),), rules)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        front = len(x.type.shape) - cls.AXES if cls.AXES else 1
        length = math.prod(x.type.shape[front:])
        return scope.emit("reshape", x, shape=(*x.type.shape[:front], length))


class Reshape(Module):
    """A sample of another shape with as many numbers: `Reshape[3, 8, 8]`, (*) -> (3, 8, 8). One
    length may be -1, which then follows from the others. It launches nothing.
    """

    SHAPE = counts(least=-1)

    @classmethod
    def check(cls) -> None:
        if cls.SHAPE.count(-1) > 1 or 0 in cls.SHAPE:
            raise CompositionError(f"{cls!r}: lengths are at least 1, and one may be -1")
        super().check()

    @classmethod
    def compose(cls) -> Signature:
        shape = tuple(variable("N") if length == -1 else length for length in cls.SHAPE)
        whole, made = Pattern((), "*"), Pattern(shape)
        return Signature((whole,), (made,), counts=((whole, elements(made)),))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, *own = x.type.shape
        open = math.prod(own) // abs(math.prod(cls.SHAPE))
        shape = (open if length == -1 else length for length in cls.SHAPE)
        return scope.emit("reshape", x, shape=(batch, *shape))


class Ordered(Module):
    """The parent of layers that put the axes of a sample into another order: `order` says for each
    of the last axes of the result which of x it is, counted from the end.
    """

    order: ClassVar[tuple[int, ...]]

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return transposed(scope, x, cls.order)


class Transpose(Module):
    """The last axes of a sample in another order: `Transpose[-1, -2]`, (*, A, B) -> (*, B, A);
    `Transpose[-1, -3, -2]`, (*, A, B, C) -> (*, C, A, B). For each axis of the result stands which
    one of x it is, counted from the end. A copy, but where only axes of length 1 move.
    """

    AXES = axes()

    @classmethod
    def check(cls) -> None:
        count = len(cls.AXES)
        if count < 2 or sorted(cls.AXES) != list(range(-count, 0)):
            known = ", ".join(str(axis) for axis in range(-count, 0))
            raise CompositionError(
                f"{cls!r} has an order of {count} axes: name each of {known} once"
                if count > 1
                else f"{cls!r} moves nothing: write Transpose[-1, -2] for the last two axes"
            )
        super().check()

    @classmethod
    def compose(cls) -> Signature:
        count = len(cls.AXES)
        lengths = [variable(letter) for letter in letters(count)]
        taken = Pattern(tuple(lengths), "*")
        return Signature((taken,), (Pattern(tuple(lengths[axis] for axis in cls.AXES), "*"),))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return transposed(scope, x, cls.AXES)


class Transpose2D(Ordered):
    """The last two axes changed about: (*, R, C) -> (*, C, R); `Transpose2D[R, C]` says their
    lengths.
    """

    R = size(None)
    C = size(None)
    order = (-1, -2)

    @classmethod
    def compose(cls) -> Signature:
        return parse_signature("(*, R, C) -> (*, C, R)", cls.__name__).filled(cls.sizes)


class ToNCHW(Ordered):
    """Images with their channels first: (H, W, C) -> (C, H, W)"""

    order = (-1, -3, -2)
    signature = "(H, W, C) -> (C, H, W)"


class ToNHWC(Ordered):
    """Images with their channels last: (C, H, W) -> (H, W, C)"""

    order = (-2, -1, -3)
    signature = "(C, H, W) -> (H, W, C)"


class SpaceTimeTranspose(Ordered):
    """Tokens of several places at several times, by place and then by time: (T, S, D) -> (S, T,
    D)
    """

    order = (-2, -3, -1)
    signature = "(T, S, D) -> (S, T, D)"


class PixelShuffle(Module):
    """Squares of SCALE by SCALE neighbouring patches as one token each: `PixelShuffle[GRID, EMBED,
    SCALE]`, (GRID², EMBED) -> ((GRID/SCALE)², EMBED·SCALE²), patches of a GRID by GRID image by
    rows.

    Token (h, w) has the numbers of the patches (h·SCALE + i, w·SCALE + j), i before j (Laurençon et
    al. 2024, "Building and better understanding vision-language models"). The `nn.PixelShuffle` of
    PyTorch is `DepthToSpace`.
    """

    GRID = size()
    EMBED = size()
    SCALE = size()
    signature = "(GRID*GRID, EMBED) -> ((GRID//SCALE)*(GRID//SCALE), EMBED*SCALE*SCALE)"

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) == 1 and not named:
            raise CompositionError(
                f"{as_written(cls, args, named)}: {cls.__name__} is of patches, {usage(cls)}; that "
                f"of PyTorch is DepthToSpace[{args[0]!r}]"
            )

    @classmethod
    def check(cls) -> None:
        if cls.GRID % cls.SCALE:
            raise CompositionError(f"{cls!r}: SCALE must divide GRID")
        super().check()

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, side, scale = x.type.shape[0], cls.GRID // cls.SCALE, cls.SCALE
        patches = scope.emit("reshape", x, shape=(batch, side, scale, side, scale, cls.EMBED))
        turned = transposed(scope, patches, (-5, -3, -4, -2, -1))
        return scope.emit("reshape", turned, shape=(batch, side**2, cls.EMBED * scale**2))


class DepthToSpace(Module):
    """Images of R times the height and width, of channels taken apart: `DepthToSpace[R]`, (C·R²,
    H, W) -> (C, H·R, W·R), y[c, h·R + i, w·R + j] = x[(c·R + i)·R + j, h, w]; `nn.PixelShuffle(R)`
    of PyTorch (Shi et al. 2016).
    """

    R = size()
    signature = "(C*R*R, H, W) -> (C, H*R, W*R)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        (batch, deep, height, width), r = x.type.shape, cls.R
        parts = scope.emit("reshape", x, shape=(batch, deep // r**2, r, r, height, width))
        turned = transposed(scope, parts, (-5, -2, -4, -1, -3))
        return scope.emit("reshape", turned, shape=(batch, deep // r**2, height * r, width * r))


class SpaceToDepth(Module):
    """The opposite of `DepthToSpace`: `SpaceToDepth[R]`, (C, H·R, W·R) -> (C·R², H, W);
    `nn.PixelUnshuffle(R)` of PyTorch.
    """

    R = size()
    signature = "(C, H*R, W*R) -> (C*R*R, H, W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        (batch, channels, high, wide), r = x.type.shape, cls.R
        height, width = high // r, wide // r
        parts = scope.emit("reshape", x, shape=(batch, channels, height, r, width, r))
        turned = transposed(scope, parts, (-5, -3, -1, -4, -2))
        return scope.emit("reshape", turned, shape=(batch, channels * r**2, height, width))


def transposed(scope: Scope, x: Value, order: tuple[int, ...]) -> Value:
    """The last axes of x in another order; a view where nothing moves in memory."""
    shape = x.type.shape
    front = len(shape) - len(order)
    every = (*range(front), *(len(shape) + axis for axis in order))
    if turn_of(shape, every).order == (0,):
        return scope.emit("reshape", x, shape=tuple(shape[axis] for axis in every))
    return scope.emit("transpose", x, axes=every)


def letters(count: int) -> list[str]:
    """Names for so many axes: A, B, …"""
    return [chr(ord("A") + place) for place in range(count)]
