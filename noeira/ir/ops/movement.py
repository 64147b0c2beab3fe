"""Moves along the last axis: `concat`, `columns` and `pad_columns`, closed under vjp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


class Concat(Op):
    """The operands side by side: [..., N₀], [..., N₁], … -> [..., N₀ + N₁ + …]"""

    name, operands = "concat", ("parts",)

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

    def result_limit(self, attrs: Any, limits: tuple[int | None, ...]) -> int | None:
        known = [limit for limit in limits if limit is not None]
        return max(known) if len(known) == len(limits) else None

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (d,) = cotangents
        assert d is not None
        found, start = list[Value | None](), 0
        for part, want in zip(node.inputs, wanted, strict=True):
            width = part.type.shape[-1]
            hint = f"d.{part.name}"
            found.append(
                builder.emit("columns", d, start=start, width=width, hint=hint) if want else None
            )
            start += width
        return tuple(found)

    def samples(self) -> tuple[Sample, ...]:
        def sample(*shapes: tuple[int, ...]) -> Sample:
            return Sample(tuple(Draw(TensorType("f32", s)) for s in shapes))

        return (
            sample((5, 3), (5, 17), (5, 1)),
            sample((33,), (7,)),
            sample((2, 3, 16), (2, 3, 16)),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        types = (TensorType("f32", (3, 4)), TensorType("f32", (2, 4)))
        return (BadSample(types, "differ in more than the last axis"),)


@dataclass(frozen=True)
class ColumnsAttrs(graph.Attrs):
    """start: the first column; width: how many."""

    start: int = 0
    width: int = 1


class Columns(Op):
    """Columns start … start + width of x: [..., N] -> [..., width]"""

    name, Attrs, operands = "columns", ColumnsAttrs, ("x",)

    def infer(self, attrs: ColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if not x.shape or attrs.start < 0 or attrs.start + attrs.width > x.shape[-1]:
            raise ShapeError(f"columns: {attrs.width} from {attrs.start} on are not in {x}")
        return (TensorType(x.dtype, (*x.shape[:-1], attrs.width)),)

    def reference(self, attrs: ColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x[..., attrs.start : attrs.start + attrs.width].copy(),)

    def result_limit(self, attrs: Any, limits: tuple[int | None, ...]) -> int | None:
        return limits[0]

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        start = node.attrs.start  # type: ignore[attr-defined]
        width = x.type.shape[-1]
        return (builder.emit("pad_columns", d, start=start, width=width, hint=f"d.{x.name}"),)

    def samples(self) -> tuple[Sample, ...]:
        x = Draw(TensorType("f32", (5, 33)))
        return tuple(Sample((x,), {"start": s, "width": w}) for s, w in ((0, 33), (3, 17), (32, 1)))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (3, 4)),), "are not in", {"start": 3, "width": 2}),)


class PadColumns(Op):
    """x as columns from `start` on of a tensor that is `width` wide and zero elsewhere: [..., N] ->
    [..., width]
    """

    name, Attrs, operands = "pad_columns", ColumnsAttrs, ("x",)

    def infer(self, attrs: ColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if not x.shape or attrs.start < 0 or attrs.start + x.shape[-1] > attrs.width:
            raise ShapeError(
                f"pad_columns: {x} from column {attrs.start} on is wider than {attrs.width}"
            )
        return (TensorType(x.dtype, (*x.shape[:-1], attrs.width)),)

    def reference(self, attrs: ColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        out = np.zeros((*x.shape[:-1], attrs.width), x.dtype)
        out[..., attrs.start : attrs.start + x.shape[-1]] = x
        return (out,)

    def result_limit(self, attrs: Any, limits: tuple[int | None, ...]) -> int | None:
        return limits[0]

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        start = node.attrs.start  # type: ignore[attr-defined]
        width = x.type.shape[-1]
        return (builder.emit("columns", d, start=start, width=width, hint=f"d.{x.name}"),)

    def samples(self) -> tuple[Sample, ...]:
        x = Draw(TensorType("f32", (5, 17)))
        return tuple(
            Sample((x,), {"start": s, "width": w}) for s, w in ((0, 17), (3, 33), (15, 32))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (3, 4)),), "is wider than", {"start": 3, "width": 6}),)
