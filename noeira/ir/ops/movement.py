"""Moves along the last axis: `concat`, `columns` and `pad_columns`, closed under vjp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Limits, Op
from noeira.ir.samples import BadSample, Sample, drawn, f32
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np


class Concat(Op):
    """The operands side by side: [..., N₀], [..., N₁], … -> [..., N₀ + N₁ + …]"""

    name, operands = "concat", ("parts",)
    moves = mixes_samples = True

    def infer(self, attrs: Any, *parts: TensorType) -> tuple[TensorType, ...]:
        if not parts or any(not p.shape for p in parts):
            raise ShapeError("concat: needs operands with at least one axis")
        first = parts[0]
        for part in parts[1:]:
            if part.shape[:-1] != first.shape[:-1] or part.dtype != first.dtype:
                raise ShapeError(f"concat: {first} and {part} differ in more than the last axis")
        columns = sum(p.shape[-1] for p in parts)
        return (TensorType(first.dtype, (*first.shape[:-1], columns)),)

    def reference(self, attrs: Any, *parts: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.concatenate(parts, axis=-1),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        known = [limit for limit in limits if limit is not None]
        return (max(known) if len(known) == len(limits) else None,)

    def moved_together(self, attrs: Any, *parts: TensorType) -> int:
        return math.gcd(*(part.shape[-1] for part in parts))

    def vjp(self, attrs: Any, back: Backward) -> tuple[Value | None, ...]:
        found, start = list[Value | None](), 0
        for part, want in zip(back.inputs, back.wanted, strict=True):
            width = part.type.shape[-1]
            columns = {"start": start, "width": width}
            found.append(back.emit("columns", back.cotangent, **columns) if want else None)
            start += width
        return tuple(found)

    def samples(self) -> tuple[Sample, ...]:
        return (
            drawn((5, 3), (5, 17), (5, 1)),
            drawn((33,), (7,)),
            drawn((2, 3, 16), (2, 3, 16)),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4), f32(2, 4)), "differ in more than the last axis"),)


@dataclass(frozen=True)
class ColumnsAttrs(graph.Attrs):
    """start: the first column; width: how many."""

    start: int = 0
    width: int = 1


@dataclass(frozen=True)
class PadColumnsAttrs(ColumnsAttrs):
    """start: the column at which those of x begin; width: columns of the result."""

    def end(self, columns: int) -> int:
        """The column behind those of x."""
        return self.start + columns

    def behind(self, columns: int) -> int:
        """Columns behind those of x."""
        return self.width - self.end(columns)


class Window(Op):
    """The parent of `columns` and `pad_columns`, each the gradient of the other."""

    operands, Attrs = ("x",), ColumnsAttrs
    moves = mixes_samples = True
    opposite: str

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits

    def moved_together(self, attrs: ColumnsAttrs, x: TensorType) -> int:
        return math.gcd(attrs.start, attrs.width, x.shape[-1])

    def vjp(self, attrs: ColumnsAttrs, back: Backward) -> dict[str, Value]:
        width = back.inputs[0].type.shape[-1]
        return {"x": back.emit(self.opposite, back.cotangent, start=attrs.start, width=width)}


class Columns(Window):
    """Columns start … start + width of x: [..., N] -> [..., width]"""

    name, opposite = "columns", "pad_columns"

    def infer(self, attrs: ColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if not x.shape or attrs.start < 0 or attrs.start + attrs.width > x.shape[-1]:
            raise ShapeError(f"columns: {attrs.width} from {attrs.start} on are not in {x}")
        return (TensorType(x.dtype, (*x.shape[:-1], attrs.width)),)

    def reference(self, attrs: ColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x[..., attrs.start : attrs.start + attrs.width].copy(),)

    def samples(self) -> tuple[Sample, ...]:
        windows = ((0, 33), (3, 17), (32, 1), (4, 8))
        return tuple(drawn((5, 33), attrs={"start": s, "width": w}) for s, w in windows)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4),), "are not in", {"start": 3, "width": 2}),)


class PadColumns(Window):
    """x as columns from `start` on of a tensor that is `width` wide and zero elsewhere: [..., N] ->
    [..., width]
    """

    name, opposite, Attrs = "pad_columns", "columns", PadColumnsAttrs

    def infer(self, attrs: PadColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if not x.shape or attrs.start < 0 or attrs.behind(x.shape[-1]) < 0:
            raise ShapeError(
                f"pad_columns: {x} from column {attrs.start} on is wider than {attrs.width}"
            )
        return (TensorType(x.dtype, (*x.shape[:-1], attrs.width)),)

    def reference(self, attrs: PadColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        out = np.zeros((*x.shape[:-1], attrs.width), x.dtype)
        out[..., attrs.start : attrs.end(x.shape[-1])] = x
        return (out,)

    def samples(self) -> tuple[Sample, ...]:
        windows = ((0, 17), (3, 33), (15, 32), (4, 24))
        return tuple(drawn((5, 17), attrs={"start": s, "width": w}) for s, w in windows)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4),), "is wider than", {"start": 3, "width": 6}),)
