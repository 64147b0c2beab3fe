"""Moves along axes, closed under vjp: `concat`, parts side by side, and `slice` and `pad`, a window
of a larger tensor and its opposite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import axis_of, check_number
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.images import AlongAxes
from noeira.ir.op import Limits
from noeira.ir.orders import ORDERS
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32, i32
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class AxisAttrs(graph.Attrs):
    """axis: along which, from the front or, negative, from the end."""

    axis: int = -1


class Concat(AlongAxes):
    """The operands one after the other along an axis, the last by default: [..., N₀, ...], [...,
    N₁, ...], … -> [..., N₀ + N₁ + …, ...]
    """

    name, operands, Attrs = "concat", ("parts",), AxisAttrs
    moves = mixes_samples = True

    def infer(self, attrs: AxisAttrs, *parts: TensorType) -> tuple[TensorType, ...]:
        if not parts or any(not p.shape for p in parts):
            raise ShapeError("concat: needs operands with at least one axis")
        first = parts[0]
        axis = axis_of(self.name, attrs.axis, first)
        for part in parts[1:]:
            alike = len(part.shape) == len(first.shape) and part.dtype == first.dtype
            if not alike or without(part, axis) != without(first, axis):
                place = "the last axis" if axis == len(first.shape) - 1 else f"axis {attrs.axis}"
                raise ShapeError(f"concat: {first} and {part} differ in more than {place}")
        length = sum(p.shape[axis] for p in parts)
        return (TensorType(first.dtype, with_length(first.shape, axis, length)),)

    def place(self, attrs: AxisAttrs, order: str) -> AxisAttrs:
        axes = ORDERS[order]
        return replace(attrs, axis=axes.index(attrs.axis % len(axes)))

    def reference(self, attrs: AxisAttrs, *parts: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.concatenate(parts, axis=attrs.axis),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        known = [limit for limit in limits if limit is not None]
        return (max(known) if len(known) == len(limits) else None,)

    def columns(self, attrs: AxisAttrs, *parts: TensorType) -> tuple[int, ...]:
        """How many neighbouring elements of the result each operand gives at a time."""
        axis = axis_of(self.name, attrs.axis, parts[0])
        return tuple(math.prod(part.shape[axis:]) for part in parts)

    def moved_together(self, attrs: AxisAttrs, *parts: TensorType) -> int:
        return math.gcd(*self.columns(attrs, *parts))

    def vjp(self, attrs: AxisAttrs, back: Backward) -> tuple[Value | None, ...]:
        found, start = list[Value | None](), 0
        for part, want in zip(back.inputs, back.wanted, strict=True):
            length = part.type.shape[attrs.axis]
            place = {"axes": (attrs.axis,), "starts": (start,), "lengths": (length,)}
            found.append(back.emit("slice", back.cotangent, **place) if want else None)
            start += length
        return tuple(found)

    def samples(self) -> tuple[Sample, ...]:
        return (
            drawn((5, 3), (5, 17), (5, 1)),
            drawn((33,), (7,)),
            drawn((2, 3, 16), (2, 3, 16)),
            drawn((2, 3, 5), (2, 1, 5), attrs={"axis": 1}),
            drawn((1, 4), (3, 4), attrs={"axis": -2}),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), f32(2, 4)), "differ in more than the last axis"),
            BadSample((f32(3, 4), f32(3)), "differ in more than the last axis"),
            BadSample((f32(3, 4), f32(3, 5)), "differ in more than axis 0", {"axis": 0}),
            BadSample((f32(3, 4), f32(3, 4)), "has no axis 2", {"axis": 2}),
        )


def without(type: TensorType, axis: int) -> tuple[int, ...]:
    """The shape but for an axis."""
    return type.shape[:axis] + type.shape[axis + 1 :]


def with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    """The shape with another length of an axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])


@dataclass(frozen=True)
class WindowAttrs(graph.Attrs):
    """axes: those that are cut, from the front or, negative, from the end; starts: where the window
    begins in each; lengths: of the result along each.
    """

    axes: tuple[int, ...] = (-1,)
    starts: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class PadAttrs(WindowAttrs):
    """starts: where x begins in each of the axes; value: of the elements around it."""

    value: float = 0.0


@dataclass(frozen=True)
class Span:
    """A window along one axis: `kept` of `whole` elements, from `start` on."""

    kept: int
    whole: int
    start: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.kept == self.whole

    @property
    def end(self) -> int:
        """What is behind the last element of the window."""
        return self.start + self.kept

    def times(self, count: int) -> Span:
        """The same where each element is so many."""
        return Span(self.kept * count, self.whole * count, self.start * count)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans of as few axes as will do: an axis that is whole is one with that before it, so all but
    the first are cut, and the last has the elements that lie side by side in both tensors.
    """
    found = list[Span]()
    for span in spans:
        if found and span.is_whole:
            found[-1] = found[-1].times(span.whole)
        elif found and found[-1].whole == 1:
            found[-1] = span
        else:
            found.append(span)
    return tuple(found) or (Span(1, 1),)


class Window(AlongAxes):
    """The parent of `slice` and `pad`, each the gradient of the other."""

    operands, Attrs = ("x",), WindowAttrs
    moves = mixes_samples = True
    opposite: str

    def axes_of(self, attrs: WindowAttrs, x: TensorType) -> tuple[int, ...]:
        """The axes that are cut. Raises ShapeError unless each has a start and a length."""
        if not len(attrs.axes) == len(attrs.starts) == len(attrs.lengths):
            raise ShapeError(
                f"{self.name}: axes {list(attrs.axes)}, starts {list(attrs.starts)} and lengths "
                f"{list(attrs.lengths)} must be as many"
            )
        axes = tuple(axis_of(self.name, axis, x) for axis in attrs.axes)
        if len(set(axes)) < len(axes):
            raise ShapeError(f"{self.name}: {list(attrs.axes)} names an axis twice")
        return axes

    def place(self, attrs: WindowAttrs, order: str) -> WindowAttrs:
        places = ORDERS[order]
        return replace(attrs, axes=tuple(places.index(axis % len(places)) for axis in attrs.axes))

    def infer(self, attrs: WindowAttrs, x: TensorType) -> tuple[TensorType, ...]:
        shape = x.shape
        for axis, start, length in zip(
            self.axes_of(attrs, x), attrs.starts, attrs.lengths, strict=True
        ):
            self.check_window(x, axis, start, length)
            shape = with_length(shape, axis, length)
        return (TensorType(x.dtype, shape),)

    def check_window(self, x: TensorType, axis: int, start: int, length: int) -> None:
        """Raises ShapeError for a window that does not fit."""
        raise NotImplementedError(self.name)

    def spans(self, attrs: WindowAttrs, x: TensorType) -> tuple[Span, ...]:
        """The window, in as few axes as will do."""
        (y,), starts = self.infer(attrs, x), [0] * len(x.shape)
        for axis, start in zip(self.axes_of(attrs, x), attrs.starts, strict=True):
            starts[axis] = start
        lengths = zip(x.shape, y.shape, starts, strict=True)
        return merged(Span(min(a, b), max(a, b), start) for a, b, start in lengths)

    def moved_together(self, attrs: WindowAttrs, x: TensorType) -> int:
        last = self.spans(attrs, x)[-1]
        return math.gcd(last.kept, last.whole, last.start)

    def vjp(self, attrs: WindowAttrs, back: Backward) -> dict[str, Value]:
        lengths = tuple(back.inputs[0].type.shape[axis] for axis in attrs.axes)
        place = {"axes": attrs.axes, "starts": attrs.starts, "lengths": lengths}
        return {"x": back.emit(self.opposite, back.cotangent, **place)}


class Slice(Window):
    """A window of x along some axes: `lengths` elements from `starts` on."""

    name, opposite = "slice", "pad"

    def check_window(self, x: TensorType, axis: int, start: int, length: int) -> None:
        if start < 0 or length < 1 or start + length > x.shape[axis]:
            raise ShapeError(f"slice: {length} from {start} on are not in axis {axis} of {x}")

    def reference(self, attrs: WindowAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x[places(attrs, x.ndim, attrs.lengths)].copy(),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits

    def samples(self) -> tuple[Sample, ...]:
        windows = ((0, 33), (3, 17), (32, 1), (4, 8))
        several = {"axes": (1, -1), "starts": (1, 2), "lengths": (2, 3)}
        return (
            *(drawn((5, 33), attrs={"starts": (s,), "lengths": (n,)}) for s, n in windows),
            drawn((2, 3, 5), attrs={"axes": (1,), "starts": (2,), "lengths": (1,)}),
            drawn((2, 4, 3, 7), attrs=several),
            Sample((Draw(i32(3, 4), "index", 9),), {"starts": (1,), "lengths": (2,)}, ()),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4),), "are not in axis 1 of", {"starts": (3,), "lengths": (2,)}),
            BadSample((f32(3, 4),), "must be as many", {"axes": (0, 1)}),
            BadSample(
                (f32(3, 4),), "twice", {"axes": (1, -1), "starts": (0, 0), "lengths": (1, 1)}
            ),
        )


class Pad(Window):
    """x as a window of a larger tensor, whose other elements are `value`: along each axis x begins
    at `starts`, and the result has `lengths` elements.
    """

    name, opposite, Attrs = "pad", "slice", PadAttrs

    def check_window(self, x: TensorType, axis: int, start: int, length: int) -> None:
        if start < 0 or start + x.shape[axis] > length:
            raise ShapeError(
                f"pad: axis {axis} of {x}, from {start} on, is longer than {length} elements"
            )

    def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
        check_number(self.name, attrs.value, x.dtype)
        return super().infer(attrs, x)

    def reference(self, attrs: PadAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        shape = list(x.shape)
        for axis, length in zip(attrs.axes, attrs.lengths, strict=True):
            shape[axis] = length
        out = np.full(shape, attrs.value, x.dtype)
        out[places(attrs, x.ndim, [x.shape[axis] for axis in attrs.axes])] = x
        return (out,)

    def result_limits(self, attrs: PadAttrs, operands: Types, limits: Limits) -> Limits:
        (limit,) = limits
        return (None if limit is None else max(limit, math.floor(attrs.value) + 1),)

    def moved_together(self, attrs: Any, x: TensorType) -> int:
        # Another number than 0 is written element by element.
        return 1 if attrs.value else super().moved_together(attrs, x)

    def samples(self) -> tuple[Sample, ...]:
        windows = ((0, 17), (3, 33), (15, 32), (4, 24))
        several = {"axes": (-1, 1), "starts": (2, 1), "lengths": (7, 4)}
        return (
            *(drawn((5, 17), attrs={"starts": (s,), "lengths": (n,)}) for s, n in windows),
            drawn((2, 3, 5), attrs={"axes": (1,), "starts": (0,), "lengths": (4,)}),
            drawn((2, 3, 2, 3), attrs=several),
            drawn((2, 2, 3), attrs=several | {"value": -1.5}),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        long = {"starts": (3,), "lengths": (6,)}
        return (
            BadSample((f32(3, 4),), "is longer than 6", long),
            BadSample((f32(3, 4),), "1e+300 does not fit", {"lengths": (4,), "value": 1e300}),
        )


def places(attrs: WindowAttrs, rank: int, lengths: Iterable[int]) -> tuple[slice, ...]:
    """The elements of a window as NumPy has them."""
    found = [slice(None)] * rank
    for axis, start, length in zip(attrs.axes, attrs.starts, lengths, strict=True):
        found[axis] = slice(start, start + length)
    return tuple(found)
