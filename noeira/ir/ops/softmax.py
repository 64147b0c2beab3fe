"""Softmax over the last axis and its logarithm; their gradients have gradients of every order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.errors import ShapeError
from noeira.ir.checks import check_rows
from noeira.ir.gradients import Backward
from noeira.ir.graph import Attrs, Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, drawn, each, f32, i32
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
            totals = [row_total(back, back.emit("multiply", a, y)) for a in (d, g)]
            first = back.emit("multiply", g, back.emit("subtract", d, totals[0]))
            second = back.emit("multiply", d, totals[1])
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


class LogSoftmax(Softmax):
    """y = x - max x - log Σ exp(x - max x), along the last axis: [..., N] -> [..., N]; NaN as the
    softmax is.
    """

    name = template = "log_softmax"

    def reference(self, attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        with np.errstate(all="ignore"):
            y = x - x.max(-1, keepdims=True)
            return (y - np.log(np.exp(y).sum(-1, keepdims=True)),)

    def vjp(self, attrs: Attrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("log_softmax_grad", back.cotangent, back.outputs[0])}


class LogSoftmaxGrad(SoftmaxGrad):
    """d_x = d - exp(y)·Σ d along the last axis, y the logarithm of the softmax. d [..., N], y [...,
    N] -> [..., N]
    """

    name = template = "log_softmax_grad"

    def reference(self, attrs: Attrs, d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (d - np.exp(y) * d.sum(-1, keepdims=True),)

    def vjp(self, attrs: Attrs, back: Backward) -> dict[str, Value]:
        # g - Σ g·exp(y) for d, and -g·exp(y)·Σ d for y.
        (d, y), g, found = back.inputs, back.cotangent, dict[str, Value]()
        share = back.emit("multiply", g, back.emit("exp", y))
        if back.wants("d"):
            found["d"] = back.emit("subtract", g, row_total(back, share))
        if back.wants("y"):
            slope = back.emit("multiply", share, row_total(back, d))
            found["y"] = back.emit("scale", slope, factor=-1.0)
        return found

    def samples(self) -> tuple[Sample, ...]:
        return tuple(drawn(shape, shape) for shape in SHAPES[:-1])


def row_total(back: Backward, a: Value) -> Value:
    """The sums of rows, as a column."""
    total = back.emit("sum", a, axes=(-1,))
    return back.emit("reshape", total, shape=(*total.type.shape, 1))
