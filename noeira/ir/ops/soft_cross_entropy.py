"""Cross-entropy of logits with rows of probabilities as targets, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError, VerifyError
from noeira.ir.checks import check_logits
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.logits import (
    CASES,
    SHAPES,
    LogitLoss,
    LogitLossAttrs,
    LogitOp,
    check_gradient_operands,
    log_sum_exp,
    per_row,
    reduced,
    softmax_of,
)
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


class SoftCrossEntropy(LogitLoss):
    """loss = mean over rows of Σ_c t_c (lse(z) - z_c), t the smoothed probabilities.

    z [..., C], target [..., C] -> loss [], lse [...]. With reduction `sum` the loss is the sum over
    rows; with `none` it is that of each row, loss [...].
    """

    name = "soft_cross_entropy"

    def infer(
        self, attrs: LogitLossAttrs, z: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        check_logits(self.name, z)
        if target != z:
            raise ShapeError(
                f"{self.name}: targets {target} must be {z}, a row of probabilities each"
            )
        return self.of_logits(attrs, z)

    def reference(
        self, attrs: LogitLossAttrs, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        lse = log_sum_exp(z)
        t = smoothed_rows(target, attrs.smoothing)
        rows = (t * (lse[..., None] - z)).sum(-1)
        return (reduced(attrs, rows).astype(z.dtype), lse)

    def vjp(self, attrs: LogitLossAttrs, back: Backward) -> dict[str, Value]:
        (z, target), (_, lse), (d_loss, d_lse) = back.inputs, back.outputs, back.cotangents
        if d_lse is not None or d_loss is None:
            raise VerifyError("soft_cross_entropy has no second derivative")
        operands = (z, target, lse, d_loss)
        d_z, d_target = back.emit("soft_cross_entropy_grad", *operands, **vars(attrs))
        return {"z": d_z, "target": d_target}

    def flops(self, attrs: LogitLossAttrs, z: TensorType, target: TensorType) -> int:
        return 6 * z.size

    def samples(self) -> tuple[Sample, ...]:
        def sample(shape: tuple[int, ...], attrs: dict[str, Any]) -> Sample:
            z = f32(*shape)
            return Sample((Draw(z), Draw(z, "probabilities")), attrs)

        return tuple(sample(shape, attrs) for shape, attrs in CASES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z = f32(4, 10)
        return (BadSample((z, f32(4, 9)), "a row of probabilities each"),)


def smoothed_rows(target: np.ndarray, smoothing: float) -> np.ndarray:
    """Rows of probabilities, smoothed."""
    kept = target.dtype.type(1 - smoothing)
    return (target * kept + target.dtype.type(smoothing / target.shape[-1])).astype(target.dtype)


class SoftCrossEntropyGrad(LogitOp):
    """d_z = (q·Σ_c t_c - t)·d_loss/R, d_target = (1 - s)·(lse - z)·d_loss/R; q = exp(z - lse), R
    rows. With reduction `sum` nothing is divided by R, nor with `none`, where d_loss is [...].
    """

    name, streams = "soft_cross_entropy_grad", True
    operands, results = ("z", "target", "lse", "d_loss"), ("d_z", "d_target")

    def infer(
        self,
        attrs: LogitLossAttrs,
        z: TensorType,
        target: TensorType,
        lse: TensorType,
        d_loss: TensorType,
    ) -> tuple[TensorType, ...]:
        SoftCrossEntropy().infer(attrs, z, target)
        check_gradient_operands(self.name, attrs, z, lse, d_loss=d_loss)
        return (z, z)

    def reference(
        self,
        attrs: LogitLossAttrs,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        q, each = softmax_of(z, lse), per_row(attrs, d_loss, lse)
        t = smoothed_rows(target, attrs.smoothing)
        d_z = (q * t.sum(-1, keepdims=True) - t) * each
        d_target = (lse[..., None] - z) * (each * z.dtype.type(1 - attrs.smoothing))
        return (d_z.astype(z.dtype), d_target.astype(z.dtype))

    def vjp(self, attrs: LogitLossAttrs, back: Backward) -> dict[str, Value]:
        raise VerifyError("soft_cross_entropy has no second derivative")

    def flops(self, attrs: LogitLossAttrs, z: TensorType, *rest: TensorType) -> int:
        return 8 * z.size

    def samples(self) -> tuple[Sample, ...]:
        out = []
        for sample in SoftCrossEntropy().samples():
            shape = sample.operands[0].type.shape
            if shape == SHAPES[-1]:
                continue
            rows = Draw(f32(*shape[:-1]))
            d_loss = rows if sample.attrs.get("reduction") == "none" else Draw(f32())
            out.append(Sample((*sample.operands, rows, d_loss), sample.attrs, ()))
        return tuple(out)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows, scalar = (f32(*s) for s in ((4, 10), (5,), ()))
        return (BadSample((z, z, rows, scalar), "do not fit"),)
