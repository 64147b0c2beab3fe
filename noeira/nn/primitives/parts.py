"""Layers that put parts together along an axis, and take them apart: `Concat`, `Slice`, `Pad`."""

from __future__ import annotations

from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.expression import Axis, add, subtract, variable
from noeira.nn.core.module import Module
from noeira.nn.core.promise import where
from noeira.nn.core.scope import Scope
from noeira.nn.core.several import counts, place
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.slots import axis, number, size

__all__ = ["Concat", "Pad", "Slice"]


class Concat(Module):
    """Several values one after the other along the last axis: `Concat`, of two, (*, A), (*, B) ->
    (*, A + B); `Concat[3]`, of three. `Concat.of(axis=-3)` is along another axis, such as the
    channels of images (C, H, W). They may differ in that axis only.
    """

    COUNT = size(2, least=2)
    AXIS = axis(-1)

    @classmethod
    def compose(cls) -> Signature:
        behind = tuple(variable(f"D{other}") for other in range(-1 - cls.AXIS, 0, -1))
        lengths = [variable(chr(ord("A") + index)) for index in range(cls.COUNT)]
        total: Axis = 0
        for length in lengths:
            total = add(total, length)
        inputs = tuple(Pattern((length, *behind), "*") for length in lengths)
        return Signature(inputs, (Pattern((total, *behind), "*"),))

    @classmethod
    def trace(cls, scope: Scope, *parts: Value) -> Value:
        return scope.emit("concat", *parts, axis=cls.AXIS)


class Slice(Module):
    """Elements START … STOP - 1 of the last axis: `Slice[2, 5]`, (*, N) -> (*, 3). As Python has
    it, negative numbers count from the end, and without STOP it goes to the end: `Slice[-3]`,
    `Slice[1, -1]`. `Slice.of(2, 5, axis=-3)` is along another axis. The gradient is 0 outside.
    """

    START = place()
    STOP = place(None)
    AXIS = axis(-1)

    @classmethod
    def check(cls) -> None:
        super().check()
        made = cls.length(cls.shapes().inputs[0].axes[0])
        if isinstance(made, int) and made < 1:
            raise CompositionError(f"{cls!r} takes no elements: STOP must be behind START")

    @classmethod
    def end(cls, whole: Axis) -> Axis:
        """What is behind the last element, of an axis of some length."""
        return whole if cls.STOP is None else counted(cls.STOP, whole)

    @classmethod
    def length(cls, whole: Axis) -> Axis:
        """How many elements there are of an axis of some length."""
        return subtract(cls.end(whole), counted(cls.START, whole))

    @classmethod
    def compose(cls) -> Signature:
        behind = tuple(variable(f"D{other}") for other in range(-1 - cls.AXIS, 0, -1))
        whole = variable("N")
        given = Pattern((whole, *behind), "*")
        return Signature((given,), (Pattern((cls.length(whole), *behind), "*"),))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        whole = x.type.shape[cls.AXIS]
        start, end = counted(cls.START, whole), cls.end(whole)
        if not 0 <= start < end <= whole:  # type: ignore[operator]
            raise CompositionError(
                f"{where(scope)} reads elements {start} to {subtract(end, 1)} of an axis that has "
                f"{whole}"
            )
        lengths = (cls.length(whole),)
        return scope.emit("slice", x, axes=(cls.AXIS,), starts=(start,), lengths=lengths)


class Pad(Module):
    """Elements before and after those of the last axes: `Pad[1, 2]`, one before and two after along
    the last, (*, A) -> (*, A + 3); `Pad[1, 1, 2, 2]` also two before and after along the axis
    before it, the last axis first, as `F.pad` of PyTorch. They are 0, or `Pad.of(1, 1,
    value=-1.0)`.
    """

    AMOUNTS = counts()
    VALUE = number(0.0)

    @classmethod
    def check(cls) -> None:
        if len(cls.AMOUNTS) % 2:
            raise CompositionError(
                f"{cls!r}: {len(cls.AMOUNTS)} amounts; there are two for each axis, before and "
                "after"
            )
        super().check()

    @classmethod
    def sides(cls) -> list[tuple[int, int, int]]:
        """Axes from the end, each with what is before and after it."""
        pairs = zip(cls.AMOUNTS[::2], cls.AMOUNTS[1::2], strict=True)
        return [(-1 - index, *pair) for index, pair in enumerate(pairs)]

    @classmethod
    def compose(cls) -> Signature:
        sides = cls.sides()[::-1]
        lengths = [variable(chr(ord("A") + index)) for index in range(len(sides))]
        made = [
            add(one, before + after) for one, (_, before, after) in zip(lengths, sides, strict=True)
        ]
        return Signature((Pattern(tuple(lengths), "*"),), (Pattern(tuple(made), "*"),))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        sides = [side for side in cls.sides() if any(side[1:])]
        place: dict[str, Any] = {
            "axes": tuple(axis for axis, _, _ in sides),
            "starts": tuple(before for _, before, _ in sides),
            "lengths": tuple(x.type.shape[axis] + before + after for axis, before, after in sides),
        }
        return scope.emit("pad", x, **place, value=cls.VALUE) if sides else x


def counted(place: int, whole: Axis) -> Axis:
    """A place from the front, of one that may count from the end."""
    return place if place >= 0 else add(whole, place)
