"""The transposition: axes in another order, its own gradient's kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import axis_of
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Limits, Op
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32, i32
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TransposeAttrs(graph.Attrs):
    """axes: for each axis of the result that of x, from the front or, negative, from the end."""

    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Turn:
    """A transposition of as few axes as will do: those of length 1 are left out, and those that
    stay neighbours are one.

    lengths: of the axes of x; order: for each axis of the result that of x.
    """

    lengths: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def keeps_last(self) -> bool:
        """Whether what lies side by side in x does so in the result."""
        return self.order[-1] == len(self.order) - 1

    @property
    def together(self) -> int:
        """Elements that stay neighbours."""
        return self.lengths[-1] if self.keeps_last else 1

    def stride(self, axis: int) -> int:
        """How far two elements of x are apart that are neighbours along an axis of x."""
        return math.prod(self.lengths[axis + 1 :])

    def result_stride(self, axis: int) -> int:
        """The same in the result."""
        behind = self.order[self.order.index(axis) + 1 :]
        return math.prod(self.lengths[other] for other in behind)


def turn_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> Turn:
    """The transposition of a shape in as few axes as will do."""
    kept = [axis for axis, length in enumerate(shape) if length > 1]
    places = [kept.index(axis) for axis in axes if shape[axis] > 1]
    runs = list[list[int]]()
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    ordered = sorted(runs)
    lengths = tuple(math.prod(shape[kept[place]] for place in run) for run in ordered)
    return Turn(lengths or (1,), tuple(ordered.index(run) for run in runs) or (0,))


class Transpose(Op):
    """x, of any dtype, with its axes in another order: y[i, j, …] = x[…], axis n of y being axis
    `axes[n]` of x.
    """

    name, operands, Attrs, moves = "transpose", ("x",), TransposeAttrs, True

    def infer(self, attrs: TransposeAttrs, x: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(x.dtype, tuple(x.shape[axis] for axis in self.axes_of(attrs, x))),)

    def axes_of(self, attrs: TransposeAttrs, x: TensorType) -> tuple[int, ...]:
        """The axes of x in the order of the result. Raises ShapeError unless each is there once."""
        found = tuple(axis_of(self.name, axis, x) for axis in attrs.axes)
        if sorted(found) != list(range(len(x.shape))):
            raise ShapeError(f"transpose: axes {list(attrs.axes)} must name each axis of {x} once")
        return found

    def reference(self, attrs: TransposeAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.array(x.transpose(attrs.axes), order="C"),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits

    def turn(self, attrs: TransposeAttrs, x: TensorType) -> Turn:
        """The same in as few axes as will do."""
        return turn_of(x.shape, self.axes_of(attrs, x))

    def moved_together(self, attrs: TransposeAttrs, x: TensorType) -> int:
        return self.turn(attrs, x).together

    def vjp(self, attrs: TransposeAttrs, back: Backward) -> dict[str, Value]:
        axes = self.axes_of(attrs, back.inputs[0].type)
        inverse = tuple(axes.index(axis) for axis in range(len(axes)))
        return {"x": back.emit("transpose", back.cotangent, axes=inverse)}

    def samples(self) -> tuple[Sample, ...]:
        cases = (
            *(((3, 5), (1, 0)), ((1, 7), (1, 0)), ((33, 17), (-1, 0)), ((40, 70), (1, 0))),
            *(((2, 3, 17), (0, 2, 1)), ((2, 5, 8), (1, 0, 2)), ((2, 3, 4, 5), (3, 1, 2, 0))),
            ((2, 3, 2, 9), (0, 2, 3, 1)),
        )
        whole = Sample((Draw(i32(18, 20), "index", 9),), {"axes": (1, 0)}, ())
        return (*(drawn(shape, attrs={"axes": axes}) for shape, axes in cases), whole)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4),), "has no axis 2", {"axes": (0, 2)}),
            BadSample((f32(3, 4),), "each axis of f32[3, 4] once", {"axes": (1, -1)}),
            BadSample((f32(3, 4),), "each axis of f32[3, 4] once", {"axes": (0,)}),
        )
