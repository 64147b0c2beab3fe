"""Contractions: `linear` and `matmul`, a family closed under vjp. Leading axes of the left operand
fold into rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


def f32(*shape: int) -> TensorType:
    """A float type for samples."""
    return TensorType("f32", shape)


def one_float_dtype(name: str, *types: TensorType) -> str:
    """The dtype that all operands have. Raises DtypeError if they differ or are no floats."""
    first = types[0].dtype
    if not all(t.is_float and t.dtype == first for t in types):
        raise DtypeError(
            f"{name}: {', '.join(map(str, types))}: operands must be floats of one dtype"
        )
    return first


@dataclass(frozen=True)
class MatmulAttrs(graph.Attrs):
    """transpose_a, transpose_b: read that operand as its transpose; at most one of the two."""

    transpose_a: bool = False
    transpose_b: bool = False


class Matmul(Op):
    """a·b, a·bᵀ or aᵀ·b; the three are each other's gradients.

    a·b:  a [..., K], b [K, N] -> [..., N]
    a·bᵀ: a [..., K], b [N, K] -> [..., N]
    aᵀ·b: a [..., K], b [..., N], leading axes equal -> [K, N]
    """

    name, kind, template = "matmul", "contraction", "gemm"
    operands, Attrs = ("a", "b"), MatmulAttrs

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

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (a, b), (d,) = node.inputs, cotangents
        attrs = node.attrs
        assert isinstance(attrs, MatmulAttrs) and d is not None
        if attrs.transpose_a:
            rules = ((b, d, {"transpose_b": True}), (a, d, {}))
        elif attrs.transpose_b:
            rules = ((d, b, {}), (d, a, {"transpose_a": True}))
        else:
            rules = ((d, b, {"transpose_b": True}), (a, d, {"transpose_a": True}))
        return tuple(
            builder.emit("matmul", left, right, hint=f"d.{value.name}", **flags) if want else None
            for (left, right, flags), value, want in zip(rules, node.inputs, wanted, strict=True)
        )

    def flops(
        self, attrs: MatmulAttrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        a = inputs[0]
        inner = math.prod(a.shape[:-1]) if attrs.transpose_a else a.shape[-1]
        return 2 * outputs[0].size * inner

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
                Sample((Draw(f32(m, k)), Draw(f32(k, n)))),
                Sample((Draw(f32(m, k)), Draw(f32(n, k))), {"transpose_b": True}),
                Sample((Draw(f32(k, m)), Draw(f32(k, n))), {"transpose_a": True}),
            ]
        return (*out, Sample((Draw(f32(3, 5, 17)), Draw(f32(17, 9)))))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), f32(5, 6)), "4 is not 5"),
            BadSample((f32(3, 4), f32(4, 6)), "4 is not 6", {"transpose_b": True}),
            BadSample((f32(3, 4), f32(4, 6)), "leading axes differ", {"transpose_a": True}),
            BadSample((f32(3, 4), f32(4)), "must have two axes"),
            BadSample((f32(3, 4), TensorType("f64", (4, 6))), "one dtype"),
            BadSample((f32(3, 4), f32(4, 6)), "both", {"transpose_a": True, "transpose_b": True}),
        )


class Linear(Op):
    """y = x·W + b: x [..., IN], weight [IN, OUT], bias [OUT] (optional) -> [..., OUT]"""

    name, kind, template = "linear", "contraction", "gemm"
    operands = ("x", "weight", "bias")

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

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        x, weight, *rest = node.inputs
        (d_y,) = cotangents
        assert d_y is not None
        d_bias = d_x = d_weight = None
        if rest and wanted[2]:
            d_bias = builder.emit("column_sum", d_y, hint=f"d.{rest[0].name}")
        if wanted[1]:
            d_weight = builder.emit("matmul", x, d_y, transpose_a=True, hint=f"d.{weight.name}")
        if wanted[0]:
            d_x = builder.emit("matmul", d_y, weight, transpose_b=True, hint=f"d.{x.name}")
        return (d_x, d_weight, d_bias) if rest else (d_x, d_weight)

    def flops(
        self, attrs: Any, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return 2 * outputs[0].size * inputs[0].shape[-1] + (
            outputs[0].size if len(inputs) > 2 else 0
        )

    def samples(self) -> tuple[Sample, ...]:
        shapes = [(m, k, n) for m in (1, 17) for k in (1, 33) for n in (7, 16)]
        shapes += [(100, 257, 10), (127, 100, 127), (257, 16, 1), (33, 900, 33)]
        with_bias = [Sample((Draw(f32(m, k)), Draw(f32(k, n)), Draw(f32(n)))) for m, k, n in shapes]
        return (
            *with_bias,
            Sample((Draw(f32(17, 33)), Draw(f32(33, 7)))),
            Sample((Draw(f32(2, 3, 5)), Draw(f32(5, 19)), Draw(f32(19)))),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4), f32(5, 6), f32(6)), "do not fit"),
            BadSample((f32(3, 4), f32(4, 6), f32(4)), "must be f32[6]"),
            BadSample((f32(3, 4), TensorType("i32", (4, 6))), "one dtype"),
        )
