"""Normalisation of rows: `layer_norm` and `rms_norm` over the last axis, and their gradients, which
have gradients of every order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from noeira.ir import graph
from noeira.ir.checks import check_number, check_rows, expect
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.ops.row_norm_grad import each_row, narrowed, normalized, widened
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, of four of them, and more; rows of one element; long rows.
SHAPES = ((3, 1), (33, 7), (2, 3, 16), (5, 65), (2, 2049))


@dataclass(frozen=True)
class NormAttrs(graph.Attrs):
    """eps: what is added to the variance, or to the mean square."""

    eps: float = 1e-5


class RowNorm(Op):
    """The parent of norms along the last axis.

    centred: whether the mean is taken away. gradient: the op of d_x and of the sums over rows.
    """

    kind, Attrs = "row", NormAttrs
    looks_twice = streams = True
    takes = frozenset({"head", "tail"})
    centred: ClassVar[bool]
    gradient: ClassVar[str]

    def result_types(
        self, attrs: NormAttrs, x: TensorType, *weights: TensorType | None
    ) -> tuple[TensorType, ...]:
        """The types of its results. Raises ShapeError or DtypeError."""
        rows = TensorType(computed(x.dtype), check_rows(self.name, x))
        check_number(f"{self.name}: eps", attrs.eps, rows.dtype)
        for name, weight in zip(self.operands[1:], weights, strict=False):
            expect(self.name, name, weight, TensorType(x.dtype, x.shape[-1:]))
        return (x, *(rows for _ in self.results[1:]))

    def reference(
        self, attrs: NormAttrs, x: np.ndarray, *weights: np.ndarray | None
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        mean = x.mean(-1, keepdims=True)
        apart = x - mean if self.centred else x
        rstd = 1 / np.sqrt(np.square(apart).mean(-1, keepdims=True) + x.dtype.type(attrs.eps))
        gain, shift = (*weights, None, None)[:2]
        y = apart * rstd
        y = y if gain is None else y * gain
        y = y if shift is None else y + shift
        return (y, *([mean[..., 0]] if self.centred else []), rstd[..., 0])

    def vjp(self, attrs: NormAttrs, back: Backward) -> dict[str, Value]:
        x, gain = back.inputs[:2]
        numbers, flows = back.outputs[1:], back.cotangents
        found = dict[str, Value]()
        if flows[0] is not None:
            found = self.of_result(back, flows[0], x, gain, numbers)
        if back.wants("x") and any(flow is not None for flow in flows[1:]):
            of_numbers = self.of_numbers(back, x, numbers, flows[1:])
            found["x"] = back.emit("add", found["x"], of_numbers) if "x" in found else of_numbers
        return found

    def of_result(
        self, back: Backward, d: Value, x: Value, gain: Value | None, numbers: tuple[Value, ...]
    ) -> dict[str, Value]:
        """The cotangents of the operands, for one of the result: one op gives them all."""
        summed = [name for name in self.operands[1:] if back.wants(name)]
        if back.wants("x"):
            weights, flags = [gain] if gain else [], {f"d_{name}": True for name in summed}
            operands = (d, x, *numbers, *weights)
            made = back.emit(self.gradient, *operands, weighted=gain is not None, **flags)
            made = made if isinstance(made, tuple) else (made,)
            return dict(zip(("x", *summed), made, strict=True))
        row, found = x.type.shape[-1:], dict[str, Value]()
        if "gain" in summed:
            product = back.emit("multiply", widened(back, d), normalized(back, x, numbers))
            found["gain"] = narrowed(back, reduce_to(back, product, row), x)
        if "shift" in summed:
            found["shift"] = reduce_to(back, d, row)
        return found

    def of_numbers(
        self,
        back: Backward,
        x: Value,
        numbers: tuple[Value, ...],
        flows: tuple[Value | None, ...],
    ) -> Value:
        """What flows back to x from the mean and from rstd, of which the variance is a function."""
        *mean, rstd = numbers
        *_, of_rstd = flows
        zero = back.emit("constant", value=0.0, dtype=rstd.type.dtype)
        of_variance = zero
        if of_rstd is not None:
            cube = back.emit("multiply", back.emit("multiply", rstd, rstd), rstd)
            half = back.emit("scale", back.emit("multiply", cube, of_rstd), factor=-0.5)
            of_variance = each_row(back, half)
        rows = [each_row(back, one) for one in mean] or [zero]
        of_mean = [each_row(back, one) for one in flows[:-1] if one is not None] or [zero]
        count = x.type.shape[-1]
        slope = back.emit(
            "moments_grad", widened(back, x), *rows, *of_mean, of_variance, count=count
        )
        return narrowed(back, slope, x)

    def flops(self, attrs: NormAttrs, x: TensorType, *weights: TensorType | None) -> int:
        return 7 * x.size

    def samples(self) -> tuple[Sample, ...]:
        found = list[Sample]()
        for number, shape in enumerate(SHAPES):
            weights = len(self.operands) - 1 - number % len(self.operands)
            row = Draw(f32(shape[-1]))
            found.append(Sample((Draw(f32(*shape)), *(row,) * weights)))
        return (*found, Sample((Draw(f32(7)), *(Draw(f32(7)),) * (len(self.operands) - 1))))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((i32(3),), "is not a float"),
            BadSample((f32(),), "has no axis"),
            BadSample((f32(4, 5), f32(4)), "gain is f32[4], it must be f32[5]"),
            BadSample((f32(4, 5),), "eps: 1e+300 does not fit in f32", {"eps": 1e300}),
        )


class LayerNorm(RowNorm):
    """y = (x - mean)·rstd·gain + shift along the last axis, rstd = 1/√(variance + eps) (Ba et al.
    2016).

    x [..., N], gain [N] and shift [N], which may be left out -> y [..., N], mean [...], rstd [...],
    of 16-bit floats in f32. The variance is that of elements from which the mean was taken.
    """

    name, operands, results = "layer_norm", ("x", "gain", "shift"), ("", "mean", "rstd")
    centred, gradient = True, "layer_norm_grad"

    def infer(
        self,
        attrs: NormAttrs,
        x: TensorType,
        gain: TensorType | None = None,
        shift: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        return self.result_types(attrs, x, gain, shift)


class RMSNorm(RowNorm):
    """y = x·rstd·gain along the last axis, rstd = 1/√(mean x² + eps) (Zhang and Sennrich 2019).

    x [..., N], gain [N], which may be left out -> y [..., N], rstd [...], of 16-bit floats in f32
    """

    name, operands, results = "rms_norm", ("x", "gain"), ("", "rstd")
    centred, gradient = False, "rms_norm_grad"

    def infer(
        self, attrs: NormAttrs, x: TensorType, gain: TensorType | None = None
    ) -> tuple[TensorType, ...]:
        return self.result_types(attrs, x, gain)
