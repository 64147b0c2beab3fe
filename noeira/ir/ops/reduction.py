"""Sums and their opposites, closed under vjp: `sum`, `column_sum` and `broadcast`, `row_sum` and
`row_broadcast`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import DtypeError, ShapeError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.ops.elementwise import broadcasts
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScaleAttrs(graph.Attrs):
    """scale: a factor on the result."""

    scale: float = 1.0


def float_operand(name: str, x: TensorType) -> None:
    """Raises DtypeError if the operand is no float."""
    if not x.is_float:
        raise DtypeError(f"{name}: {x} is not a float")


class Sum(Op):
    """scale · Σ x over every element, -> rank 0. The order is fixed: chunks of rows, then the
    chunks in order.
    """

    name, kind, operands, Attrs = "sum", "row", ("x",), ScaleAttrs

    def infer(self, attrs: ScaleAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand("sum", x)
        return (TensorType(x.dtype, ()),)

    def reference(self, attrs: ScaleAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((x.sum() * x.dtype.type(attrs.scale)).astype(x.dtype),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        scale = node.attrs.scale  # type: ignore[attr-defined]
        return (builder.emit("broadcast", d, shape=x.type.shape, scale=scale, hint=f"d.{x.name}"),)

    def flops(
        self, attrs: ScaleAttrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1,), (7,), (33, 17), (100, 257))
        return tuple(
            Sample((Draw(TensorType("f32", s)),), {"scale": scale})
            for s in shapes
            for scale in (1.0, 0.25)
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("i32", (3,)),), "not a float"),)


class ColumnSum(Op):
    """scale · Σ over all axes but the last: [..., N] -> [N]; rows are added in ascending order, in
    fixed chunks.
    """

    name, kind, template = "column_sum", "column", "column"
    operands, Attrs = ("x",), ScaleAttrs

    def infer(self, attrs: ScaleAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand("column_sum", x)
        if not x.shape:
            raise ShapeError(f"column_sum: {x} has no axis")
        return (TensorType(x.dtype, x.shape[-1:]),)

    def reference(self, attrs: ScaleAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((x.reshape(-1, x.shape[-1]).sum(0) * x.dtype.type(attrs.scale)).astype(x.dtype),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        scale = node.attrs.scale  # type: ignore[attr-defined]
        return (builder.emit("broadcast", d, shape=x.type.shape, scale=scale, hint=f"d.{x.name}"),)

    def flops(
        self, attrs: ScaleAttrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1, 1), (7, 16), (17,), (100, 33), (2, 65, 127), (257, 7))
        return tuple(Sample((Draw(TensorType("f32", s)),)) for s in shapes)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", ()),), "has no axis"),)


@dataclass(frozen=True)
class BroadcastAttrs(graph.Attrs):
    """shape: of the result; scale: a factor."""

    shape: tuple[int, ...] = ()
    scale: float = 1.0


class Broadcast(Op):
    """scale · x, repeated along leading axes to `shape`: x has rank 0, or only the last axes."""

    name, operands, Attrs = "broadcast", ("x",), BroadcastAttrs

    def infer(self, attrs: BroadcastAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand("broadcast", x)
        if not broadcasts(x.shape, attrs.shape):
            raise ShapeError(f"broadcast: {x} does not fit shape {attrs.shape}")
        return (TensorType(x.dtype, attrs.shape),)

    def reference(self, attrs: BroadcastAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.broadcast_to(x * x.dtype.type(attrs.scale), attrs.shape).astype(x.dtype),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        scale = node.attrs.scale  # type: ignore[attr-defined]
        hint = f"d.{x.name}"
        if x.type.shape == d.type.shape:
            return (builder.emit("scale", d, factor=scale, hint=hint),)
        if x.type.shape == ():
            return (builder.emit("sum", d, scale=scale, hint=hint),)
        if len(x.type.shape) == 1:
            return (builder.emit("column_sum", d, scale=scale, hint=hint),)
        flat = (d.type.size // x.type.size, x.type.size)
        rows = builder.emit("reshape", d, shape=flat, hint=f"{hint}.rows")
        summed = builder.emit("column_sum", rows, scale=scale, hint=hint)
        return (builder.emit("reshape", summed, shape=x.type.shape, hint=hint),)

    def samples(self) -> tuple[Sample, ...]:
        cases = (((), (7, 33)), ((17,), (100, 17)), ((3, 4), (5, 3, 4)), ((), (1,)), ((9,), (9,)))
        return tuple(
            Sample((Draw(TensorType("f32", x)),), {"shape": shape, "scale": 0.5})
            for x, shape in cases
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (3,)),), "does not fit shape", {"shape": (4, 2)}),)


class RowSum(Op):
    """Σ over the last axis: [..., N] -> [...]."""

    name, kind, operands = "row_sum", "row", ("x",)

    def infer(self, attrs: graph.Attrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand("row_sum", x)
        if not x.shape:
            raise ShapeError(f"row_sum: {x} has no axis")
        return (TensorType(x.dtype, x.shape[:-1]),)

    def reference(self, attrs: graph.Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.sum(-1),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        columns = x.type.shape[-1]
        return (builder.emit("row_broadcast", d, columns=columns, hint=f"d.{x.name}"),)

    def flops(
        self, attrs: graph.Attrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1,), (7, 16), (100, 33), (2, 65, 127))
        return tuple(Sample((Draw(TensorType("f32", s)),)) for s in shapes)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((TensorType("f32", ()),), "has no axis"),
            BadSample((TensorType("i32", (3,)),), "not a float"),
        )


@dataclass(frozen=True)
class ColumnsAttrs(graph.Attrs):
    """columns: of the result."""

    columns: int = 1


class RowBroadcast(Op):
    """Each element along a new last axis: [...] -> [..., columns]."""

    name, operands, Attrs = "row_broadcast", ("x",), ColumnsAttrs

    def infer(self, attrs: ColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand("row_broadcast", x)
        if attrs.columns < 1:
            raise ShapeError(f"row_broadcast: {attrs.columns} columns")
        return (TensorType(x.dtype, (*x.shape, attrs.columns)),)

    def reference(self, attrs: ColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.repeat(np.asarray(x)[..., None], attrs.columns, -1),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (d,) = node.inputs, cotangents
        assert d is not None
        return (builder.emit("row_sum", d, hint=f"d.{x.name}"),)

    def samples(self) -> tuple[Sample, ...]:
        cases = (((), 5), ((9,), 16), ((3, 4), 33))
        return tuple(Sample((Draw(TensorType("f32", s)),), {"columns": n}) for s, n in cases)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (3,)),), "0 columns", {"columns": 0}),)
