"""Views, which launch nothing: `constant`, `pack`, `reshape`; `copy`, a value in memory of its own;
and `take`, which gathers a mini-batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError, VerifyError
from noeira.ir import graph
from noeira.ir.checks import check_number
from noeira.ir.cost import Cost
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import IndexLimit, Limits, Op
from noeira.ir.orders import flattened, ordered
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32, i32
from noeira.ir.storage import Holding, Inside, Literal
from noeira.ir.types import DTYPE_BYTES, TensorType, Types

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ConstantAttrs(graph.Attrs):
    """value: the literal; dtype: its dtype."""

    value: float = 0.0
    dtype: str = "f32"


class Constant(Op):
    """A literal of rank 0; it lives in the program's read-only data."""

    name, Attrs = "constant", ConstantAttrs

    def infer(self, attrs: ConstantAttrs) -> tuple[TensorType, ...]:
        check_number("constant", attrs.value, attrs.dtype)
        return (TensorType(attrs.dtype, ()),)

    def reference(self, attrs: ConstantAttrs) -> tuple[np.ndarray, ...]:
        from noeira.ir.arrays import numpy_dtype

        return (numpy_dtype(attrs.dtype).type(attrs.value),)

    def storage(self, attrs: ConstantAttrs, operands: Types) -> Literal:
        return Literal(attrs.value)

    def result_limits(self, attrs: ConstantAttrs, operands: Types, limits: Limits) -> Limits:
        return (int(attrs.value) + 1 if 0 <= attrs.value < 2**63 else None,)

    def vjp(self, attrs: ConstantAttrs, back: Backward) -> dict[str, Value]:
        return {}

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((), {"value": 0.5}), Sample((), {"value": 3.0, "dtype": "i64"}))

    def bad_samples(self) -> tuple[BadSample, ...]:
        bad = (
            *((1.5, "i64"), (2.0**63, "i64"), (-1.0, "u8"), (2.0, "bool"), (math.inf, "i32")),
            *((1e300, "f32"), (-65520.0, "f16")),
        )
        return (
            *(BadSample((), "does not fit in", {"value": v, "dtype": d}) for v, d in bad),
            BadSample((), "there is no dtype 'f8'", {"dtype": "f8"}),
        )


@dataclass(frozen=True)
class PackAttrs(graph.Attrs):
    """layout: the name of the layout; size: its elements; offsets: where each operand begins;
    orders: in which the axes of each lie, if not all are row major.
    """

    layout: str = ""
    size: int = 0
    offsets: tuple[int, ...] = ()
    orders: tuple[str, ...] = ()


class Pack(Op):
    """One flat value made of the operands, each at its place in a layout; the plan puts them there
    to begin with.
    """

    name, operands, Attrs = "pack", ("parts",), PackAttrs

    def infer(self, attrs: PackAttrs, *parts: TensorType) -> tuple[TensorType, ...]:
        if not parts or len(parts) != len(attrs.offsets):
            raise ShapeError(f"pack: {len(parts)} operands for {len(attrs.offsets)} offsets")
        if any(part.dtype != parts[0].dtype for part in parts):
            raise DtypeError("pack: operands must have one dtype")
        if attrs.orders and len(attrs.orders) != len(parts):
            raise ShapeError(f"pack: {len(parts)} operands in {len(attrs.orders)} orders")
        for part, order in zip(parts, attrs.orders or ("",) * len(parts), strict=True):
            try:
                ordered(part, order)
            except VerifyError as error:
                raise ShapeError(f"pack: {error}") from None
        if attrs.offsets[0] < 0:
            raise ShapeError(f"pack: the offset {attrs.offsets[0]} is negative")
        ends = [o + p.size for o, p in zip(attrs.offsets, parts, strict=True)]
        if any(
            end > start for end, start in zip(ends, (*attrs.offsets[1:], attrs.size), strict=True)
        ):
            raise ShapeError("pack: operands overlap or go past the end")
        return (TensorType(parts[0].dtype, (attrs.size,), attrs.layout or None),)

    def reference(self, attrs: PackAttrs, *parts: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        flat = np.zeros(attrs.size, parts[0].dtype)
        orders = attrs.orders or ("",) * len(parts)
        for offset, order, part in zip(attrs.offsets, orders, parts, strict=True):
            flat[offset : offset + part.size] = flattened(part, order)
        return (flat,)

    def kernel_orders(self, attrs: PackAttrs, operands: Types) -> tuple[str | None, ...]:
        return attrs.orders or ("",) * len(operands)

    def storage(self, attrs: PackAttrs, operands: Types) -> Holding:
        return Holding(attrs.offsets)

    def samples(self) -> tuple[Sample, ...]:
        parts = (Draw(f32(3, 4)), Draw(f32(5)))
        return (Sample(parts, {"layout": "net", "size": 64, "offsets": (0, 32)}, ()),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        part = f32(40)
        return (
            BadSample((part, part), "overlap", {"size": 96, "offsets": (0, 32)}),
            BadSample((part,), "is negative", {"size": 96, "offsets": (-32,)}),
            BadSample((part,), "1 operands for 2 offsets", {"size": 96, "offsets": (0, 32)}),
            BadSample(
                (part,),
                "f32[40] has not the axes of the order 'hwoi'",
                {"size": 96, "offsets": (0,), "orders": ("hwoi",)},
            ),
        )


@dataclass(frozen=True)
class ReshapeAttrs(graph.Attrs):
    """shape: of the result."""

    shape: tuple[int, ...] = ()


class Reshape(Op):
    """The same elements under another shape."""

    name, operands, Attrs = "reshape", ("x",), ReshapeAttrs

    def infer(self, attrs: ReshapeAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if math.prod(attrs.shape) != x.size:
            raise ShapeError(f"reshape: {x} has {x.size} elements, shape {attrs.shape} has not")
        return (TensorType(x.dtype, attrs.shape),)

    def reference(self, attrs: ReshapeAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.reshape(attrs.shape),)

    def storage(self, attrs: ReshapeAttrs, operands: Types) -> Inside:
        return Inside()

    def result_limits(self, attrs: ReshapeAttrs, operands: Types, limits: Limits) -> Limits:
        return limits

    def vjp(self, attrs: ReshapeAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("reshape", back.cotangent, shape=back.inputs[0].type.shape)}

    def samples(self) -> tuple[Sample, ...]:
        return (drawn((6, 4), attrs={"shape": (3, 8)}),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(6, 4),), "has 24 elements", {"shape": (5, 5)}),)


class Copy(Op):
    """x, of any dtype, in memory of its own"""

    name, operands, moves = "copy", ("x",), True

    def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
        return (x,)

    def reference(self, attrs: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.array(x),)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        return (operands[0].order,)

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        return (None,)

    def moved_together(self, attrs: Any, x: TensorType) -> int:
        return x.size

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        return {"x": back.cotangent}

    def samples(self) -> tuple[Sample, ...]:
        floats = [Draw(f32(*shape)) for shape in ((), (7,), (4, 33), (100, 257))]
        whole = [Draw(TensorType(dtype, (3, 5)), "index", 2) for dtype in ("i32", "i64", "u8")]
        flags = Draw(TensorType("bool", (7,)), "true")
        return tuple(Sample((draw,)) for draw in (*floats, *whole, flags))


@dataclass(frozen=True)
class TakeAttrs(graph.Attrs):
    """rows: samples in a mini-batch."""

    rows: int = 1


class Take(Op):
    """The `rows` samples of a resident data set whose numbers stand in `order` from `cursor` on.

    data [N, ...], order i32[N], cursor i64[], not negative -> [rows, ...]. The cursor counts on and
    on: entry (cursor + i) mod N of the order is sample i.
    """

    name, Attrs, operands = "take", TakeAttrs, ("data", "order", "cursor")
    moves = True

    def infer(
        self, attrs: TakeAttrs, data: TensorType, order: TensorType, cursor: TensorType
    ) -> tuple[TensorType, ...]:
        if not data.shape or order != TensorType("i32", data.shape[:1]):
            raise ShapeError(f"take: order {order} must be i32 with one entry a sample of {data}")
        if cursor != TensorType("i64", ()):
            raise DtypeError(f"take: cursor {cursor} must be i64[]")
        if not 0 < attrs.rows <= data.shape[0]:
            raise ShapeError(f"take: {attrs.rows} rows of {data}")
        return (TensorType(data.dtype, (attrs.rows, *data.shape[1:])),)

    def reference(
        self, attrs: TakeAttrs, data: np.ndarray, order: np.ndarray, cursor: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (data[order[(int(cursor) + np.arange(attrs.rows)) % len(order)]],)

    def cost(
        self, attrs: TakeAttrs, data: TensorType, order: TensorType, cursor: TensorType
    ) -> Cost:
        """The rows that are taken and their places, not the whole data set."""
        (result,) = self.infer(attrs, data, order, cursor)
        places = attrs.rows * DTYPE_BYTES[order.dtype]
        return Cost(0, result.nbytes + places + cursor.nbytes, result.nbytes)

    def index_limits(self, attrs: Any, operands: Types) -> dict[str, IndexLimit]:
        return {"order": IndexLimit(operands[0].shape[0], "samples")}

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits[:1]

    def moved_together(
        self, attrs: TakeAttrs, data: TensorType, order: TensorType, cursor: TensorType
    ) -> int:
        """A sample."""
        return data.size // data.shape[0]

    def samples(self) -> tuple[Sample, ...]:
        def sample(data: TensorType, rows: int) -> Sample:
            n = data.shape[0]
            operands = (
                Draw(data, "normal" if data.is_float else "index", 10),
                Draw(i32(n), "index", n),
                Draw(TensorType("i64", ()), "index", 3 * n),
            )
            return Sample(operands, {"rows": rows}, ())

        return (
            sample(f32(20, 7), 6),
            sample(f32(20, 4, 33), 20),
            sample(i32(17), 5),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        data, cursor = f32(20, 7), TensorType("i64", ())
        return (
            BadSample((data, i32(19), cursor), "one entry a sample"),
            BadSample((data, i32(20), cursor), "21 rows", {"rows": 21}),
        )
