"""The greatest element along an axis: where it is, `argmax`, what stands there, `pick`, and the
gradient of that, `put`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import DtypeError, ShapeError
from noeira.ir.checks import axis_of, float_operand
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import IndexLimit, Limits, Op
from noeira.ir.ops.movement import AxisAttrs, with_length, without
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32, i32
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np


class AlongAxis(Op):
    """The parent of ops along one axis, by default the last."""

    Attrs = AxisAttrs
    mixes_samples = True

    def grid(self, attrs: AxisAttrs, whole: TensorType) -> tuple[int, int, int]:
        """A tensor as what is before the axis, the axis, and what is behind it."""
        axis = axis_of(self.name, attrs.axis, whole)
        before, behind = whole.shape[:axis], whole.shape[axis + 1 :]
        return math.prod(before), whole.shape[axis], math.prod(behind)


class Argmax(AlongAxis):
    """The place of the greatest element along an axis, the first of equal ones; a NaN is greater
    than all numbers, as in PyTorch: [..., N, ...] -> i32 [..., ...]. It has no gradient.
    """

    name, operands = "argmax", ("x",)

    def infer(self, attrs: AxisAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        return (TensorType("i32", without(x, axis_of(self.name, attrs.axis, x))),)

    def reference(self, attrs: AxisAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.asarray(x.argmax(attrs.axis), np.int32),)

    def result_limits(self, attrs: AxisAttrs, operands: Types, limits: Limits) -> Limits:
        return (operands[0].shape[attrs.axis],)

    def vjp(self, attrs: AxisAttrs, back: Backward) -> dict[str, Value]:
        return {}

    def flops(self, attrs: AxisAttrs, x: TensorType) -> int:
        return x.size

    def samples(self) -> tuple[Sample, ...]:
        cases = (((7,), -1), ((5, 33), -1), ((3, 1, 2), 1), ((2, 9, 17), 1), ((4, 5), 0))
        return tuple(Sample((Draw(f32(*shape)),), {"axis": axis}, ()) for shape, axis in cases)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((i32(3),), "not a float"),
            BadSample((f32(3),), "has no axis 1", {"axis": 1}),
        )


class Pick(AlongAxis):
    """One element along an axis, `place` says which: x [..., N, ...], place i32 [..., ...], from 0
    to N - 1 -> [..., ...]
    """

    name, operands = "pick", ("x", "place")

    def infer(self, attrs: AxisAttrs, x: TensorType, place: TensorType) -> tuple[TensorType, ...]:
        shape = without(x, axis_of(self.name, attrs.axis, x))
        check_places(self.name, place, shape)
        return (TensorType(x.dtype, shape),)

    def reference(
        self, attrs: AxisAttrs, x: np.ndarray, place: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        places = np.expand_dims(place, attrs.axis)
        return (np.take_along_axis(x, places, attrs.axis).squeeze(attrs.axis),)

    def index_limits(self, attrs: AxisAttrs, operands: Types) -> dict[str, IndexLimit]:
        return {"place": IndexLimit(operands[0].shape[attrs.axis], "elements")}

    def result_limits(self, attrs: AxisAttrs, operands: Types, limits: Limits) -> Limits:
        return limits[:1]

    def vjp(self, attrs: AxisAttrs, back: Backward) -> dict[str, Value]:
        x, place = back.inputs
        length = x.type.shape[attrs.axis]
        return {"x": back.emit("put", back.cotangent, place, axis=attrs.axis, length=length)}

    def samples(self) -> tuple[Sample, ...]:
        return (
            picked((5, 33), -1),
            picked((2, 9, 17), 1),
            picked((4, 5), 0),
            picked((1, 1), -1),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), i32(4)), "one for each of f32[3]"),
            BadSample((f32(3, 4), f32(3)), "must be i32"),
        )


@dataclass(frozen=True)
class PutAttrs(AxisAttrs):
    """length: of the axis."""

    length: int = 1


class Put(AlongAxis):
    """x at one place along a new axis, `place` says which, 0 elsewhere: x [..., ...], place i32
    [..., ...], from 0 to length - 1 -> [..., length, ...]
    """

    name, operands, Attrs = "put", ("x", "place"), PutAttrs

    def infer(self, attrs: PutAttrs, x: TensorType, place: TensorType) -> tuple[TensorType, ...]:
        check_places(self.name, place, x.shape)
        if attrs.length < 1:
            raise ShapeError(f"put: an axis has at least one element, not {attrs.length}")
        # The axis is one of the result.
        wide = TensorType(x.dtype, (*x.shape, 1))
        axis = axis_of(self.name, attrs.axis, wide)
        return (TensorType(x.dtype, (*x.shape[:axis], attrs.length, *x.shape[axis:])),)

    def reference(
        self, attrs: PutAttrs, x: np.ndarray, place: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        wide = np.expand_dims(x, attrs.axis)
        out = np.zeros(with_length(wide.shape, attrs.axis % wide.ndim, attrs.length), x.dtype)
        np.put_along_axis(out, np.expand_dims(place, attrs.axis), wide, attrs.axis)
        return (out,)

    def index_limits(self, attrs: PutAttrs, operands: Types) -> dict[str, IndexLimit]:
        return {"place": IndexLimit(attrs.length, "elements")}

    def result_limits(self, attrs: PutAttrs, operands: Types, limits: Limits) -> Limits:
        return limits[:1]

    def vjp(self, attrs: PutAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("pick", back.cotangent, back.inputs[1], axis=attrs.axis)}

    def samples(self) -> tuple[Sample, ...]:
        return (
            placed((5,), 33, -1),
            placed((2, 17), 9, 1),
            placed((3, 5), 4, 0),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3), i32(4)), "one for each of f32[3]"),
            BadSample((f32(3), i32(3)), "at least one element, not 0", {"length": 0}),
        )


def check_places(name: str, place: TensorType, shape: tuple[int, ...]) -> None:
    """Places that must be one for each element of a shape."""
    if place.dtype != "i32":
        raise DtypeError(f"{name}: place is {place}, it must be i32")
    if place.shape != shape:
        raise ShapeError(f"{name}: place is {place}, it must have one for each of {f32(*shape)}")


def picked(shape: tuple[int, ...], axis: int) -> Sample:
    """A sample of `pick`."""
    (x,), rank = drawn(shape).operands, len(shape)
    places = i32(*without(x.type, axis % rank))
    return Sample((x, Draw(places, "index", shape[axis])), {"axis": axis}, (0,))


def placed(shape: tuple[int, ...], length: int, axis: int) -> Sample:
    """A sample of `put`."""
    places = Draw(i32(*shape), "index", length)
    return Sample((Draw(f32(*shape)), places), {"axis": axis, "length": length}, (0,))
