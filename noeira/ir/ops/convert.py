"""Conversion between dtypes: `cast`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError
from noeira.ir import graph
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32
from noeira.ir.scalar import Expr, var
from noeira.ir.types import FLOATS, TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class CastAttrs(graph.Attrs):
    """dtype: of the result, a float."""

    dtype: str = "f32"


class Cast(Elementwise):
    """The same numbers as floats of another dtype, rounded to the nearest, ties to even.

    Whole numbers, and true and false as 1 and 0, become floats; none become whole numbers. What is
    wider than f32 becomes a 16-bit float by way of f32.
    """

    name, Attrs = "cast", CastAttrs

    def expression(self, attrs: Any) -> Expr:
        return var("x")

    def result_dtype(self, attrs: CastAttrs, given: Mapping[str, TensorType]) -> str:
        if attrs.dtype not in FLOATS:
            raise DtypeError(f"cast: to {attrs.dtype}; there are {', '.join(FLOATS)}")
        return attrs.dtype

    def vjp(self, attrs: CastAttrs, back: Backward) -> dict[str, Value]:
        (x,) = back.inputs
        if not x.type.is_float:
            return {}
        return {"x": back.emit("cast", back.cotangent, dtype=x.type.dtype)}

    def samples(self) -> tuple[Sample, ...]:
        floats = [Draw(TensorType(dtype, (5, 19))) for dtype in ("bf16", "f16")]
        whole = [Draw(TensorType(dtype, (7, 9)), "index", 2) for dtype in ("i32", "bool")]
        to_f32 = (Sample((draw,), {"dtype": "f32"}, ()) for draw in (*floats, *whole))
        narrower = Sample((Draw(f32(4, 33)),), {"dtype": "bf16"}, ())
        return (drawn((3, 17), attrs={"dtype": "f64"}), narrower, *to_f32)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3),), "to i32", {"dtype": "i32"}),)
