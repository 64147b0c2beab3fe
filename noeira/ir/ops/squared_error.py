"""The mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.ops.reduction import float_operand
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


class MSE(Op):
    """loss = Σ (prediction - target)² / N over all N elements, as PyTorch's `mse_loss`"""

    name, kind, operands = "mse", "row", ("prediction", "target")

    def infer(
        self, attrs: Any, prediction: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        float_operand("mse", prediction)
        if target != prediction:
            raise ShapeError(f"mse: prediction {prediction} and target {target} differ")
        return (TensorType(prediction.dtype, ()),)

    def reference(
        self, attrs: Any, prediction: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        difference = prediction - target
        return ((difference * difference).mean().astype(prediction.dtype),)

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (prediction, target), (d,) = node.inputs, cotangents
        assert d is not None
        scale = 2.0 / prediction.type.size
        pairs = ((prediction, target), (target, prediction))
        return tuple(
            builder.emit("scaled_difference", a, b, d, scale=scale, hint=f"d.{a.name}")
            if want
            else None
            for (a, b), want in zip(pairs, wanted, strict=True)
        )

    def flops(
        self, attrs: Any, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return 3 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1,), (7, 1), (33, 17), (100, 257))
        return tuple(Sample((Draw(TensorType("f32", s)),) * 2) for s in shapes)

    def bad_samples(self) -> tuple[BadSample, ...]:
        types = (TensorType("f32", (3, 4)), TensorType("f32", (3,)))
        return (BadSample(types, "differ"),)


@dataclass(frozen=True)
class DifferenceAttrs(graph.Attrs):
    """scale: a factor on the result."""

    scale: float = 1.0


class ScaledDifference(Elementwise):
    """(a - b) · (d · scale), d of rank 0: the gradient of `mse`"""

    name, operands, Attrs = "scaled_difference", ("a", "b", "d"), DifferenceAttrs

    def expression(self, attrs: DifferenceAttrs) -> Expr:
        return (var("a") - var("b")) * (var("d") * attrs.scale)
