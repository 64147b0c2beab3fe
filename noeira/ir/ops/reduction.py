"""Sums over axes and their opposite, closed under vjp: `sum` and `broadcast`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.broadcasting import common_shape, neighbours
from noeira.ir.checks import check_number, float_operand
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.orders import IMAGES, ORDERS, arranged, canonical, stored
from noeira.ir.samples import BadSample, Sample, drawn, f32, i32
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType, Types, computed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np


@dataclass(frozen=True)
class SumAttrs(graph.Attrs):
    """axes: those that are summed, from the front or, negative, from the end; all if none are
    named. scale: a factor on the result.
    """

    axes: tuple[int, ...] = ()
    scale: float = 1.0


class Sum(Op):
    """scale · Σ x over `axes`, which lie side by side and are dropped; -> rank 0 over all of them.

    Its kernel runs over x as batches of rows by columns, of which it sums the rows. The order is
    fixed by these numbers: sums of everything and of many rows are sums of chunks, added in order.
    """

    name, kind, operands, Attrs = "sum", "column", ("x",), SumAttrs
    takes = frozenset({"head"})

    def infer(self, attrs: SumAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        check_number(self.name, attrs.scale, computed(x.dtype))
        axes = summed_axes(attrs.axes, x)
        return (TensorType(x.dtype, tuple(n for i, n in enumerate(x.shape) if i not in axes)),)

    def reference(self, attrs: SumAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((x.sum(attrs.axes or None) * x.dtype.type(attrs.scale)).astype(x.dtype),)

    def vjp(self, attrs: SumAttrs, back: Backward) -> dict[str, Value]:
        x, d = back.inputs[0].type, back.cotangent
        axes = summed_axes(attrs.axes, x)
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        if common_shape((d.type.shape, kept)) != kept:
            d = back.emit("reshape", d, shape=kept)
        return {"x": back.emit("broadcast", d, shape=x.shape, scale=attrs.scale)}

    def kernel_orders(self, attrs: SumAttrs, operands: Types) -> tuple[str | None, ...]:
        (x,) = operands
        axes = summed_axes(attrs.axes, x)
        tried = (x.order, "", IMAGES.get(len(x.shape), ""))
        return (canonical(x.shape, next(one for one in tried if lies_well(x, axes, one))),)

    def laid(self, attrs: SumAttrs, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        (x,) = operands
        if x.order:
            axes = summed_axes(attrs.axes, x)
            places = tuple(sorted(ORDERS[x.order].index(axis) for axis in axes))
            attrs = replace(attrs, axes=places)
        return attrs, (stored(x),), results

    def batches(self, attrs: SumAttrs, x: TensorType) -> tuple[int, int, int]:
        """x as batches of rows by columns: what comes before the axes, they themselves, the rest.

        Axes of length 1 may lie anywhere. Without a row to add there is one batch of one row.
        """
        axes = [axis for axis in summed_axes(attrs.axes, x) if x.shape[axis] != 1]
        first, last = (axes[0], axes[-1] + 1) if axes else (0, 0)
        outer, rows = math.prod(x.shape[:first]), math.prod(x.shape[first:last])
        return (1, 1, x.size) if rows == 1 else (outer, rows, math.prod(x.shape[last:]))

    def stem(self, attrs: SumAttrs, x: TensorType) -> str:
        batches, rows, columns = self.batches(attrs, x)
        if columns > 1 or rows == 1:
            return "column"
        return "row_sum" if batches > 1 else "sum"

    def kind_of(self, attrs: SumAttrs, x: TensorType) -> str:
        # A sum of a row is complete when that is read, others when all rows are.
        return "row" if self.stem(attrs, x) == "row_sum" else "column"

    def rows(self, attrs: SumAttrs, x: TensorType) -> TensorType:
        batches, rows, columns = self.batches(attrs, x)
        matrix = (batches, rows) if columns == 1 else (batches * rows, columns)
        return TensorType(x.dtype, matrix)

    def flops(self, attrs: SumAttrs, x: TensorType) -> int:
        return x.size

    def samples(self) -> tuple[Sample, ...]:
        every = ((1,), (7,), (33, 17), (100, 257))
        columns = ((1, 1), (7, 16), (17,), (100, 33), (2, 65, 127), (257, 7))
        cases = [
            *((shape, ()) for shape in every),
            *((shape, tuple(range(len(shape) - 1)) or (0,)) for shape in columns),
            *((shape, (-1,)) for shape in ((7, 16), (100, 33), (2, 65, 127))),
            *(((4, 9, 17), (1,)), ((3, 5, 2, 33), (1, 2)), ((65, 2, 7), (-2,))),
            *(((5, 6, 7), (1, 2)), ((4, 1, 9, 1, 5), (0, 2)), ((4, 1, 9), (1,))),
            ((3, 7, 1, 1), (0, 2, 3)),
        ]
        plain = (drawn(shape, attrs={"axes": axes}) for shape, axes in cases)
        scaled = (((33, 17), ()), ((30, 31), (0,)), ((17, 41), (1,)), ((3, 40, 10), (1,)))
        return (*plain, *(drawn(x, attrs={"axes": a, "scale": 0.25}) for x, a in scaled))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((i32(3),), "not a float"),
            BadSample((f32(3),), "sum: 1e+300 does not fit in f32", {"scale": 1e300}),
            BadSample((f32(3, 4),), "has no axis 2", {"axes": (2,)}),
            BadSample((f32(3, 4),), "axis 1 twice", {"axes": (1, -1)}),
            BadSample((f32(3, 4, 5, 6),), "sum over [2], then over [0]", {"axes": (0, 2)}),
            BadSample((f32(3, 4, 5, 6),), "sum over [3], then over [0, 1]", {"axes": (0, 1, -1)}),
        )


def summed_axes(axes: tuple[int, ...], x: TensorType) -> tuple[int, ...]:
    """The axes of x that a sum over `axes` drops, in order. Raises ShapeError if they are not."""
    rank = len(x.shape)
    found = sorted(axis % rank if -rank <= axis < rank else rank for axis in axes)
    if rank in found:
        wrong = next(axis for axis in axes if not -rank <= axis < rank)
        raise ShapeError(f"sum: {x} has no axis {wrong}")
    if len(set(found)) < len(found):
        twice = next(axis for axis in found if found.count(axis) > 1)
        raise ShapeError(f"sum: {list(axes)} names axis {twice} twice")
    runs = neighbours(found, x.shape)
    if len(runs) > 1 and not lies_well(x, found, IMAGES.get(rank, "")):
        raise ShapeError(
            f"sum: axes {list(axes)} of {x} do not lie side by side: {one_by_one(runs)}"
        )
    return tuple(found) or tuple(range(rank))


def one_by_one(runs: list[tuple[int, ...]]) -> str:
    """The sums to write for several runs of axes, the last first: the numbers of others stay."""
    return f"sum over {', then over '.join(str(list(run)) for run in reversed(runs))}"


def lies_well(x: TensorType, axes: Sequence[int], order: str) -> bool:
    """Whether axes of x lie side by side in memory in an order, and what is left of x without them
    is row major.
    """
    if not order:
        return len(neighbours(axes, x.shape)) == 1
    places = [ORDERS[order].index(axis) for axis in axes]
    left = [axis for axis in ORDERS[order] if axis not in axes and x.shape[axis] != 1]
    return len(neighbours(places, arranged(x.shape, order))) == 1 and left == sorted(left)


@dataclass(frozen=True)
class BroadcastAttrs(graph.Attrs):
    """shape: of the result; scale: a factor; order: in which the axes of the result lie."""

    shape: tuple[int, ...] = ()
    scale: float = 1.0
    order: str = ""


class Broadcast(Elementwise):
    """scale · x, repeated to `shape` as in NumPy: aligned at the right, along axes of length 1."""

    name, Attrs = "broadcast", BroadcastAttrs

    def expression(self, attrs: BroadcastAttrs) -> Expr:
        return var("x") * attrs.scale

    def result_shape(
        self, attrs: BroadcastAttrs, given: Mapping[str, TensorType]
    ) -> tuple[int, ...]:
        x = given["x"]
        if common_shape((x.shape, attrs.shape)) != attrs.shape:
            raise ShapeError(
                f"broadcast: x is {x}, which does not fit shape {list(attrs.shape)}: "
                "aligned at the right, axes must be equal, or 1 in x"
            )
        return attrs.shape

    def orders(self, attrs: BroadcastAttrs, operands: Types, results: Types) -> tuple[str, ...]:
        return (attrs.order,) if attrs.order else super().orders(attrs, operands, results)

    def laid(
        self, attrs: BroadcastAttrs, operands: Types, results: Types
    ) -> tuple[Any, Types, Types]:
        shape = arranged(attrs.shape, results[0].order)
        _, operands, results = super().laid(attrs, operands, results)
        return replace(attrs, shape=shape, order=""), operands, results

    def vjp(self, attrs: BroadcastAttrs, back: Backward) -> dict[str, Value]:
        # The sum takes the factor: no op is needed for it.
        return {"x": reduce_to(back, back.cotangent, back.inputs[0].type.shape, attrs.scale)}

    def samples(self) -> tuple[Sample, ...]:
        cases = (((), (7, 33)), ((17,), (100, 17)), ((3, 4), (5, 3, 4)), ((), (1,)), ((9,), (9,)))
        rows = (((9, 1), (9, 16)), ((3, 1, 5), (2, 3, 4, 5)), ((4, 1, 1), (4, 3, 11)))
        plain = drawn((), attrs={"shape": (4, 5)}), drawn((77, 1), attrs={"shape": (77, 5)})
        scaled = (drawn(x, attrs={"shape": y, "scale": 0.5}) for x, y in (*cases, *rows))
        return (*scaled, *plain)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3),), "does not fit shape [4, 2]", {"shape": (4, 2)}),
            BadSample((f32(4, 3),), "does not fit shape [1, 3]", {"shape": (1, 3)}),
            BadSample((i32(3),), "must be floats", {"shape": (4, 3)}),
        )
