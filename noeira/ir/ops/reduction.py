"""Sums and their opposites, closed under vjp: `sum`, `column_sum` and `broadcast`, `row_sum` and
`row_broadcast`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import broadcasts, check_rows, float_operand
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import reduce_to
from noeira.ir.samples import BadSample, Sample, drawn, each, f32, i32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScaleAttrs(graph.Attrs):
    """scale: a factor on the result."""

    scale: float = 1.0


class Reduction(Op):
    """The parent of sums of one operand `x`: an addition for each element."""

    operands = ("x",)

    def flops(self, attrs: Any, x: TensorType) -> int:
        return x.size


class ScaledSum(Reduction):
    """The parent of sums whose gradient is repeated along leading axes."""

    Attrs = ScaleAttrs

    def vjp(self, attrs: ScaleAttrs, back: Backward) -> dict[str, Value]:
        shape = back.inputs[0].type.shape
        return {"x": back.emit("broadcast", back.cotangent, shape=shape, scale=attrs.scale)}


class Sum(ScaledSum):
    """scale · Σ x over every element, -> rank 0. The order is fixed: chunks of rows, then the
    chunks in order.
    """

    name, kind = "sum", "row"

    def infer(self, attrs: ScaleAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        return (TensorType(x.dtype, ()),)

    def reference(self, attrs: ScaleAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((x.sum() * x.dtype.type(attrs.scale)).astype(x.dtype),)

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1,), (7,), (33, 17), (100, 257))
        return (*each(*shapes), *each(*shapes, scale=0.25))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((i32(3),), "not a float"),)


class ColumnSum(ScaledSum):
    """scale · Σ over all axes but the last: [..., N] -> [N]; rows are added in ascending order, in
    fixed chunks.
    """

    name, kind, template = "column_sum", "column", "column"
    takes = frozenset({"head"})

    def infer(self, attrs: ScaleAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, x)
        return (TensorType(x.dtype, x.shape[-1:]),)

    def reference(self, attrs: ScaleAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return ((x.reshape(-1, x.shape[-1]).sum(0) * x.dtype.type(attrs.scale)).astype(x.dtype),)

    def samples(self) -> tuple[Sample, ...]:
        return each((1, 1), (7, 16), (17,), (100, 33), (2, 65, 127), (257, 7))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(),), "has no axis"),)


@dataclass(frozen=True)
class BroadcastAttrs(graph.Attrs):
    """shape: of the result; scale: a factor."""

    shape: tuple[int, ...] = ()
    scale: float = 1.0


class Broadcast(Op):
    """scale · x, repeated along leading axes to `shape`: x has rank 0, or only the last axes."""

    name, operands, Attrs = "broadcast", ("x",), BroadcastAttrs

    def infer(self, attrs: BroadcastAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        if not broadcasts(x.shape, attrs.shape):
            raise ShapeError(f"broadcast: {x} does not fit shape {attrs.shape}")
        return (TensorType(x.dtype, attrs.shape),)

    def reference(self, attrs: BroadcastAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.broadcast_to(x * x.dtype.type(attrs.scale), attrs.shape).astype(x.dtype),)

    def vjp(self, attrs: BroadcastAttrs, back: Backward) -> dict[str, Value]:
        return {"x": reduce_to(back, back.cotangent, back.inputs[0].type.shape, attrs.scale)}

    def samples(self) -> tuple[Sample, ...]:
        cases = (((), (7, 33)), ((17,), (100, 17)), ((3, 4), (5, 3, 4)), ((), (1,)), ((9,), (9,)))
        return tuple(drawn(x, attrs={"shape": shape, "scale": 0.5}) for x, shape in cases)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3),), "does not fit shape", {"shape": (4, 2)}),)


class RowSum(Reduction):
    """Σ over the last axis: [..., N] -> [...]."""

    name, kind = "row_sum", "row"
    takes = frozenset({"head"})

    def infer(self, attrs: graph.Attrs, x: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(x.dtype, check_rows(self.name, x)),)

    def reference(self, attrs: graph.Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.sum(-1),)

    def vjp(self, attrs: graph.Attrs, back: Backward) -> dict[str, Value]:
        columns = back.inputs[0].type.shape[-1]
        return {"x": back.emit("row_broadcast", back.cotangent, columns=columns)}

    def samples(self) -> tuple[Sample, ...]:
        return each((1,), (7, 16), (100, 33), (2, 65, 127))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(),), "has no axis"), BadSample((i32(3),), "not a float"))


@dataclass(frozen=True)
class ColumnsAttrs(graph.Attrs):
    """columns: of the result."""

    columns: int = 1


class RowBroadcast(Op):
    """Each element along a new last axis: [...] -> [..., columns]."""

    name, operands, Attrs = "row_broadcast", ("x",), ColumnsAttrs

    def infer(self, attrs: ColumnsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        if attrs.columns < 1:
            raise ShapeError(f"row_broadcast: {attrs.columns} columns")
        return (TensorType(x.dtype, (*x.shape, attrs.columns)),)

    def reference(self, attrs: ColumnsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.repeat(np.asarray(x)[..., None], attrs.columns, -1),)

    def vjp(self, attrs: ColumnsAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("row_sum", back.cotangent)}

    def samples(self) -> tuple[Sample, ...]:
        cases = (((), 5), ((9,), 16), ((3, 4), 33))
        return tuple(drawn(x, attrs={"columns": columns}) for x, columns in cases)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3),), "0 columns", {"columns": 0}),)
