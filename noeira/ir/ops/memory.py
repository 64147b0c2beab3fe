"""Views, which launch nothing: `constant`, `pack`, `reshape`; and `take`, which gathers a
mini-batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Cost, Draw, IndexLimit, Op, Sample
from noeira.ir.types import DTYPE_BYTES, TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ConstantAttrs(graph.Attrs):
    """value: the literal; dtype: its dtype."""

    value: float = 0.0
    dtype: str = "f32"


class Constant(Op):
    """A literal of rank 0; it lives in the program's read-only data."""

    name, kind, launches, Attrs = "constant", "view", False, ConstantAttrs

    def infer(self, attrs: ConstantAttrs) -> tuple[TensorType, ...]:
        return (TensorType(attrs.dtype, ()),)

    def reference(self, attrs: ConstantAttrs) -> tuple[np.ndarray, ...]:
        from noeira.ir.arrays import numpy_dtype

        return (numpy_dtype(attrs.dtype).type(attrs.value),)

    def result_limit(self, attrs: ConstantAttrs, limits: tuple[int | None, ...]) -> int | None:
        return int(attrs.value) + 1 if 0 <= attrs.value < 2**63 else None

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        return ()

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((), {"value": 0.5}), Sample((), {"value": 3.0, "dtype": "i64"}))


@dataclass(frozen=True)
class PackAttrs(graph.Attrs):
    """layout: the name of the layout; size: its elements; offsets: where each operand begins."""

    layout: str = ""
    size: int = 0
    offsets: tuple[int, ...] = ()


class Pack(Op):
    """One flat value made of the operands, each at its place in a layout; the plan puts them there
    to begin with.
    """

    name, kind, launches, Attrs = "pack", "view", False, PackAttrs
    operands = ("parts",)

    def infer(self, attrs: PackAttrs, *parts: TensorType) -> tuple[TensorType, ...]:
        if not parts or len(parts) != len(attrs.offsets):
            raise ShapeError(f"pack: {len(parts)} operands for {len(attrs.offsets)} offsets")
        if any(part.dtype != parts[0].dtype for part in parts):
            raise DtypeError("pack: operands must have one dtype")
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
        for offset, part in zip(attrs.offsets, parts, strict=True):
            flat[offset : offset + part.size] = part.ravel()
        return (flat,)

    def samples(self) -> tuple[Sample, ...]:
        parts = (Draw(TensorType("f32", (3, 4))), Draw(TensorType("f32", (5,))))
        return (Sample(parts, {"layout": "net", "size": 64, "offsets": (0, 32)}, ()),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        part = TensorType("f32", (40,))
        return (
            BadSample((part, part), "overlap", {"size": 96, "offsets": (0, 32)}),
            BadSample((part,), "is negative", {"size": 96, "offsets": (-32,)}),
            BadSample((part,), "1 operands for 2 offsets", {"size": 96, "offsets": (0, 32)}),
        )


@dataclass(frozen=True)
class ReshapeAttrs(graph.Attrs):
    """shape: of the result."""

    shape: tuple[int, ...] = ()


class Reshape(Op):
    """The same elements under another shape."""

    name, kind, launches, Attrs = "reshape", "view", False, ReshapeAttrs
    operands = ("x",)

    def infer(self, attrs: ReshapeAttrs, x: TensorType) -> tuple[TensorType, ...]:
        if math.prod(attrs.shape) != x.size:
            raise ShapeError(f"reshape: {x} has {x.size} elements, shape {attrs.shape} has not")
        return (TensorType(x.dtype, attrs.shape),)

    def reference(self, attrs: ReshapeAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.reshape(attrs.shape),)

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
        return (builder.emit("reshape", d, shape=x.type.shape, hint=f"d.{x.name}"),)  # type: ignore[arg-type]

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(TensorType("f32", (6, 4))),), {"shape": (3, 8)}),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (6, 4)),), "has 24 elements", {"shape": (5, 5)}),)


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
        self, attrs: Any, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> Cost:
        """The rows that are taken and their places, not the whole data set."""
        places = attrs.rows * DTYPE_BYTES[inputs[1].dtype]
        taken = outputs[0].nbytes
        return Cost(0, taken + places + inputs[2].nbytes, taken)

    def index_limits(self, attrs: Any, operands: tuple[TensorType, ...]) -> dict[int, IndexLimit]:
        return {1: IndexLimit(operands[0].shape[0], "samples")}

    def result_limit(self, attrs: Any, limits: tuple[int | None, ...]) -> int | None:
        return limits[0]

    def samples(self) -> tuple[Sample, ...]:
        def sample(data: TensorType, rows: int) -> Sample:
            n = data.shape[0]
            operands = (
                Draw(data, "normal" if data.is_float else "index", 10),
                Draw(TensorType("i32", (n,)), "index", n),
                Draw(TensorType("i64", ()), "index", 3 * n),
            )
            return Sample(operands, {"rows": rows}, ())

        return (
            sample(TensorType("f32", (20, 7)), 6),
            sample(TensorType("f32", (20, 4, 33)), 20),
            sample(TensorType("i32", (17,)), 5),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        data, cursor = TensorType("f32", (20, 7)), TensorType("i64", ())
        return (
            BadSample((data, TensorType("i32", (19,)), cursor), "one entry a sample"),
            BadSample((data, TensorType("i32", (20,)), cursor), "21 rows", {"rows": 21}),
        )
