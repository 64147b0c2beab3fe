"""Contractions: `linear` and `matmul`, a family closed under vjp. Leading axes of the left operand
fold into rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import one_float_dtype
from noeira.ir.filters import Filters
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.product import Product
from noeira.ir.samples import BadSample, Sample, drawn, f32, i32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class MatmulAttrs(graph.Attrs):
    """transpose_a, transpose_b: read that operand as its transpose; at most one of the two."""

    transpose_a: bool = False
    transpose_b: bool = False


class Contraction(Op):
    """The parent of ops that are a product of matrices, which one kernel does for all of them."""

    kind, template = "contraction", "gemm"
    takes = frozenset({"tail"})

    def flops(self, attrs: Any, *args: Any, **kwargs: Any) -> int:
        return self.product(attrs, *args, **kwargs).flops


class Matmul(Contraction):
    """a·b, a·bᵀ or aᵀ·b; the three are each other's gradients.

    a·b:  a [..., K], b [K, N] -> [..., N]
    a·bᵀ: a [..., K], b [N, K] -> [..., N]
    aᵀ·b: a [..., K], b [..., N], leading axes equal -> [K, N]
    """

    name, operands, Attrs = "matmul", ("a", "b"), MatmulAttrs

    def infer(self, attrs: MatmulAttrs, a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
        dtype = one_float_dtype("matmul", a, b)
        if attrs.transpose_a and attrs.transpose_b:
            raise ShapeError("matmul: transpose_a and transpose_b cannot both be set")
        if not a.shape or not b.shape:
            raise ShapeError(f"matmul: {a} and {b}: operands need at least one axis")
        if attrs.transpose_a:
            if a.shape[:-1] != b.shape[:-1]:
                raise ShapeError(f"matmul: {a} transposed and {b}: their leading axes differ")
            return (TensorType(dtype, (a.shape[-1], b.shape[-1])),)
        if len(b.shape) != 2:
            raise ShapeError(f"matmul: the right operand {b} must have two axes")
        inner, columns = reversed(b.shape) if attrs.transpose_b else b.shape
        if inner != a.shape[-1]:
            turned = " transposed" if attrs.transpose_b else ""
            raise ShapeError(
                f"matmul: {a} and {b}{turned} do not fit: {a.shape[-1]} is not {inner}"
            )
        return (TensorType(dtype, (*a.shape[:-1], columns)),)

    def reference(self, attrs: MatmulAttrs, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
        if attrs.transpose_a:
            return (a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1]),)
        return (a @ (b.T if attrs.transpose_b else b),)

    def vjp(self, attrs: MatmulAttrs, back: Backward) -> dict[str, Value]:
        (a, b), d = back.inputs, back.cotangent
        if attrs.transpose_a:
            rules = {"a": (b, d, {"transpose_b": True}), "b": (a, d, {})}
        elif attrs.transpose_b:
            rules = {"a": (d, b, {}), "b": (d, a, {"transpose_a": True})}
        else:
            rules = {"a": (d, b, {"transpose_b": True}), "b": (a, d, {"transpose_a": True})}
        return {
            name: back.emit("matmul", left, right, **flags)
            for name, (left, right, flags) in rules.items()
            if back.wants(name)
        }

    def product(self, attrs: MatmulAttrs, a: TensorType, b: TensorType) -> Product:
        columns = a.shape[-1]
        rows, n = a.size // columns, b.shape[0] if attrs.transpose_b else b.shape[-1]
        m, k = (columns, rows) if attrs.transpose_a else (rows, columns)
        return Product(m, n, k, "a", "b", attrs.transpose_a, attrs.transpose_b)

    def samples(self) -> tuple[Sample, ...]:
        out = list[Sample]()
        for m, k, n in (
            (1, 1, 1),
            (7, 16, 17),
            (33, 7, 100),
            (16, 127, 1),
            (1, 100, 33),
            (127, 257, 33),
        ):
            out += [
                drawn((m, k), (k, n)),
                drawn((m, k), (n, k), attrs={"transpose_b": True}),
                drawn((k, m), (k, n), attrs={"transpose_a": True}),
            ]
        return (*out, drawn((3, 5, 17), (17, 9)))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), f32(5, 6)), "4 is not 5"),
            BadSample((f32(3, 4), f32(4, 6)), "4 is not 6", {"transpose_b": True}),
            BadSample((f32(3, 4), f32(4, 6)), "leading axes differ", {"transpose_a": True}),
            BadSample((f32(3, 4), f32(4)), "must have two axes"),
            BadSample((f32(3, 4), TensorType("f64", (4, 6))), "one dtype"),
            BadSample((f32(3, 4), f32(4, 6)), "both", {"transpose_a": True, "transpose_b": True}),
        )


class Linear(Contraction, Filters):
    """y = x·W + b: x [..., IN], weight [IN, OUT], bias [OUT] (optional) -> [..., OUT]"""

    name, operands = "linear", ("x", "weight", "bias")

    def infer(
        self, attrs: Any, x: TensorType, weight: TensorType, bias: TensorType | None = None
    ) -> tuple[TensorType, ...]:
        dtype = one_float_dtype("linear", x, weight, *([bias] if bias else []))
        if len(weight.shape) != 2 or not x.shape or x.shape[-1] != weight.shape[0]:
            raise ShapeError(f"linear: x {x} and weight {weight} do not fit")
        if bias is not None and bias.shape != weight.shape[1:]:
            raise ShapeError(f"linear: bias {bias} must be {dtype}[{weight.shape[1]}]")
        return (TensorType(dtype, (*x.shape[:-1], weight.shape[1])),)

    def reference(
        self, attrs: Any, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        return (x @ weight if bias is None else x @ weight + bias,)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        (x, weight), d_y = back.inputs[:2], back.cotangent
        found = dict[str, Value]()
        if back.wants("bias"):
            found["bias"] = reduce_to(back, d_y, weight.type.shape[1:])
        if back.wants("weight"):
            found["weight"] = back.emit("matmul", x, d_y, transpose_a=True)
        if back.wants("x"):
            found["x"] = back.emit("matmul", d_y, weight, transpose_b=True)
        return found

    def product(
        self, attrs: Any, x: TensorType, weight: TensorType, bias: TensorType | None = None
    ) -> Product:
        k, n = weight.shape
        return Product(x.size // k, n, k, "x", "weight", bias="bias" if bias else "")

    def samples(self) -> tuple[Sample, ...]:
        shapes = [(m, k, n) for m in (1, 17) for k in (1, 33) for n in (7, 16)]
        shapes += [(100, 257, 10), (127, 100, 127), (257, 16, 1), (33, 900, 33)]
        return (
            *(drawn((m, k), (k, n), (n,)) for m, k, n in shapes),
            drawn((17, 33), (33, 7)),
            drawn((2, 3, 5), (5, 19), (19,)),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), f32(5, 6), f32(6)), "do not fit"),
            BadSample((f32(3, 4), f32(4, 6), f32(4)), "must be f32[6]"),
            BadSample((f32(3, 4), i32(4, 6)), "one dtype"),
        )
