"""Softmax over the last axis and its gradient, which has gradients of every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.errors import ShapeError
from noeira.ir.checks import check_rows
from noeira.ir.gradients import Backward
from noeira.ir.graph import Attrs, Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, each, f32, i32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, of four of them, and more.
SHAPES = ((1,), (3, 9), (2, 3, 16), (20, 17), (5, 63), (4, 64), (3, 65), (2, 2049))


class Softmax(Op):
    """y = exp(x - max x) / Σ exp(x - max x), along the last axis: [..., N] -> [..., N].

    A row with a NaN, with +∞ or of nothing but -∞ gives NaN, as in PyTorch.
    """

    name, kind, operands = "softmax", "row", ("x",)
    looks_twice = True
    takes = frozenset({"head", "tail"})

    def infer(self, attrs: Attrs, x: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, x)
        return (x,)

    def reference(self, attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        with np.errstate(all="ignore"):
            y = np.exp(x - x.max(-1, keepdims=True))
            return (y / y.sum(-1, keepdims=True),)

    def vjp(self, attrs: Attrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("softmax_grad", back.cotangent, back.outputs[0])}

    def flops(self, attrs: Attrs, x: TensorType) -> int:
        return 5 * x.size

    def samples(self) -> tuple[Sample, ...]:
        return each(*SHAPES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((i32(3),), "is not a float"),
            BadSample((f32(),), "has no axis"),
        )


class SoftmaxGrad(Op):
    """d_x = y·(d - Σ d·y) along the last axis, y the softmax. d [..., N], y [..., N] -> [..., N]"""

    name, kind, operands = "softmax_grad", "row", ("d", "y")
    looks_twice = streams = True
    takes = frozenset({"head", "tail"})

    def infer(self, attrs: Attrs, d: TensorType, y: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, y)
        if d != y:
            raise ShapeError(f"{self.name}: the cotangent {d} must be {y}")
        return (y,)

    def reference(self, attrs: Attrs, d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return (y * (d - (d * y).sum(-1, keepdims=True)),)

    def vjp(self, attrs: Attrs, back: Backward) -> dict[str, Value]:
        # Linear in d and its own transpose there; in y it is g·(d - Σ d·y) - d·Σ g·y.
        (d, y), g, found = back.inputs, back.cotangent, dict[str, Value]()
        if back.wants("d"):
            found["d"] = back.emit("softmax_grad", g, y)
        if back.wants("y"):

            def summed(a: Value) -> Value:
                total = back.emit("sum", back.emit("multiply", a, y), axes=(-1,))
                return back.emit("reshape", total, shape=(*y.type.shape[:-1], 1))

            first = back.emit("multiply", g, back.emit("subtract", d, summed(d)))
            second = back.emit("multiply", d, summed(g))
            found["y"] = back.emit("subtract", first, second)
        return found

    def flops(self, attrs: Attrs, d: TensorType, y: TensorType) -> int:
        return 4 * y.size

    def samples(self) -> tuple[Sample, ...]:
        types = [f32(*shape) for shape in SHAPES]
        return tuple(Sample((Draw(x), Draw(x, "probabilities"))) for x in types)

    def bad_samples(self) -> tuple[BadSample, ...]:
        y = f32(4, 10)
        return (
            BadSample((f32(4, 9), y), "must be"),
            BadSample((i32(3),) * 2, "is not a float"),
        )
