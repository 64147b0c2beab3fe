"""The mean squared error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import float_operand
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, Sample, drawn, f32
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np


class MSE(Op):
    """loss = Σ (prediction - target)² / N over all N elements, as PyTorch's `mse_loss`; of 16-bit
    floats in f32
    """

    name, kind, totals, operands = "mse", "row", True, ("prediction", "target")

    def infer(
        self, attrs: Any, prediction: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        float_operand("mse", prediction)
        if target != prediction:
            raise ShapeError(f"mse: prediction {prediction} and target {target} differ")
        return (TensorType(computed(prediction.dtype), ()),)

    def reference(
        self, attrs: Any, prediction: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        difference = prediction - target
        return ((difference * difference).mean().astype(prediction.dtype),)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        (prediction, target), d = back.inputs, back.cotangent
        scale = 2.0 / prediction.type.size
        pairs = {"prediction": (prediction, target), "target": (target, prediction)}
        return {
            name: back.emit("scaled_difference", a, b, d, scale=scale)
            for name, (a, b) in pairs.items()
            if back.wants(name)
        }

    def flops(self, attrs: Any, prediction: TensorType, target: TensorType) -> int:
        return 3 * prediction.size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(drawn(shape, shape) for shape in ((1,), (7, 1), (33, 17), (100, 257)))

    def bad_samples(self) -> tuple[BadSample, ...]:
        types = (f32(3, 4), f32(3))
        return (BadSample(types, "differ"),)


@dataclass(frozen=True)
class DifferenceAttrs(graph.Attrs):
    """scale: a factor on the result."""

    scale: float = 1.0


class ScaledDifference(Elementwise):
    """(a - b) · (d · scale), d of rank 0: the gradient of `mse`; d is as a and b are computed in"""

    name, operands, Attrs = "scaled_difference", ("a", "b", "d"), DifferenceAttrs

    def result_dtype(self, attrs: Any, given: Mapping[str, TensorType]) -> str:
        a, d = given["a"], given["d"]
        if a.is_float and d.dtype == computed(a.dtype):
            given = {**given, "d": replace(d, dtype=a.dtype)}
        return super().result_dtype(attrs, given)

    def expression(self, attrs: DifferenceAttrs) -> Expr:
        return (var("a") - var("b")) * (var("d") * attrs.scale)
