"""Softmax over the last axis and its gradient, which has gradients of every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.errors import DtypeError, ShapeError
from noeira.ir.graph import Attrs, Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, of four of them, and more.
SHAPES = ((1,), (3, 9), (2, 3, 16), (20, 17), (5, 63), (4, 64), (3, 65), (2, 2049))


def check_rows(name: str, x: TensorType) -> None:
    """Raises DtypeError or ShapeError if the operand has no rows of floats."""
    if not x.is_float:
        raise DtypeError(f"{name}: {x} is not a float")
    if not x.shape:
        raise ShapeError(f"{name}: {x} has no axis")


class Softmax(Op):
    """y = exp(x - max x) / Σ exp(x - max x), along the last axis: [..., N] -> [..., N].

    A row with a NaN, with +∞ or of nothing but -∞ gives NaN, as in PyTorch.
    """

    name, kind, operands = "softmax", "row", ("x",)

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, x)
        return (x,)

    def reference(self, attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        with np.errstate(all="ignore"):
            y = np.exp(x - x.max(-1, keepdims=True))
            return (y / y.sum(-1, keepdims=True),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (x,), (y,), (d,) = node.inputs, node.outputs, cotangents
        assert d is not None
        return (builder.emit("softmax_grad", d, y, hint=f"d.{x.name}"),)

    def flops(
        self, attrs: Attrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return 5 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(Sample((Draw(TensorType("f32", shape)),)) for shape in SHAPES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((TensorType("i32", (3,)),), "is not a float"),
            BadSample((TensorType("f32", ()),), "has no axis"),
        )


class SoftmaxGrad(Op):
    """d_x = y·(d - Σ d·y) along the last axis, y the softmax. d [..., N], y [..., N] -> [..., N]"""

    name, kind, operands = "softmax_grad", "row", ("d", "y")

    def infer(self, attrs: Attrs, d: TensorType, y: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, y)
        if d != y:
            raise ShapeError(f"{self.name}: the cotangent {d} must be {y}")
        return (y,)

    def reference(self, attrs: Attrs, d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return (y * (d - (d * y).sum(-1, keepdims=True)),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        # Linear in d and its own transpose there; in y it is g·(d - Σ d·y) - d·Σ g·y.
        (d, y), (g,) = node.inputs, cotangents
        assert g is not None
        d_d = builder.emit("softmax_grad", g, y, hint=f"d.{d.name}") if wanted[0] else None
        if not wanted[1]:
            return (d_d, None)

        def summed(a: Value) -> Value:
            total = builder.emit("row_sum", builder.emit("multiply", a, y))
            return builder.emit("row_broadcast", total, columns=y.type.shape[-1])

        first = builder.emit("multiply", g, builder.emit("subtract", d, summed(d)))
        second = builder.emit("multiply", d, summed(g))
        return (d_d, builder.emit("subtract", first, second, hint=f"d.{y.name}"))

    def flops(
        self, attrs: Attrs, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return 4 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        types = [TensorType("f32", shape) for shape in SHAPES]
        return tuple(Sample((Draw(x), Draw(x, "probabilities"))) for x in types)

    def bad_samples(self) -> tuple[BadSample, ...]:
        y = TensorType("f32", (4, 10))
        return (
            BadSample((TensorType("f32", (4, 9)), y), "must be"),
            BadSample((TensorType("i32", (3,)),) * 2, "is not a float"),
        )
