"""Cross-entropy of logits over bins with the two-hot encoding of numbers, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import ShapeError, VerifyError
from noeira.ir.checks import check_logits
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.bins import BOUNDS, SHAPES, EncodingAttrs, check_bins, two_hot
from noeira.ir.ops.logits import (
    LogitLoss,
    LogitOp,
    RowLossAttrs,
    check_gradient_operands,
    log_sum_exp,
    per_row,
    reduced,
    softmax_of,
)
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TwoHotAttrs(EncodingAttrs, RowLossAttrs):
    """The bins, and what is made of the losses of the rows."""


class TwoHot(LogitLoss):
    """loss = mean over rows of lse(z) - Σ_c t_c z_c, lse(z) = log Σ_c exp z_c; t is the two-hot
    encoding of the row's target, see `two_hot_encode`.

    z [..., BINS], target [...] as z is computed in -> loss [], lse [...]. With reduction `sum` the
    loss is the sum over rows; with `none` it is that of each row, loss [...]. Targets have no
    gradient.
    """

    name, Attrs, saved = "two_hot", TwoHotAttrs, ("lse",)

    def infer(
        self, attrs: TwoHotAttrs, z: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        rows = TensorType(computed(z.dtype), check_logits(self.name, z))
        check_bins(self.name, attrs, z.shape[-1], z.dtype)
        if target != rows:
            raise ShapeError(f"{self.name}: targets {target} must be {rows}, a number for each row")
        return self.of_logits(attrs, z)

    def reference(
        self, attrs: TwoHotAttrs, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        lse = log_sum_exp(z)
        rows = (two_hot(attrs, target, z.shape[-1]) * (lse[..., None] - z)).sum(-1)
        return (reduced(attrs, rows).astype(z.dtype), lse)

    def vjp(self, attrs: TwoHotAttrs, back: Backward) -> dict[str, Value]:
        (z, target), (_, lse) = back.inputs, back.outputs
        operands = (z, target, lse, back.cotangent)
        return {"z": back.emit("two_hot_grad", *operands, **vars(attrs))}

    def flops(self, attrs: TwoHotAttrs, z: TensorType, target: TensorType) -> int:
        return 4 * z.size

    def samples(self) -> tuple[Sample, ...]:
        cases = [(shape, {"symlog": symlog}) for shape in SHAPES for symlog in (False, True)]
        cases += [(shape, {"reduction": kind}) for shape in SHAPES[1:4] for kind in ("sum", "none")]
        return tuple(
            Sample((Draw(f32(*shape)), Draw(f32(*shape[:-1]))), BOUNDS | own, (0,))
            for shape, own in cases
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, target = f32(4, 10), f32(4)
        return (
            BadSample((z, f32(5)), "targets f32[5] must be f32[4], a number for each row"),
            BadSample((z, i32(4)), "targets i32[4] must be f32[4]"),
            BadSample((f32(4, 1), target), "at least 2 bins, not 1"),
            BadSample((z, target), "must be below high", {"low": 1.0}),
        )


class TwoHotGrad(LogitOp):
    """d_z = (q - t)·d_loss/R, q = exp(z - lse) the softmax, t the encoding of the targets, R the
    number of rows: z [..., BINS], target [...], lse [...], d_loss [] -> [..., BINS]. With reduction
    `sum` nothing is divided by R, nor with `none`, where d_loss is [...].
    """

    name, streams, Attrs = "two_hot_grad", True, TwoHotAttrs
    operands = ("z", "target", "lse", "d_loss")

    def infer(
        self,
        attrs: TwoHotAttrs,
        z: TensorType,
        target: TensorType,
        lse: TensorType,
        d_loss: TensorType,
    ) -> tuple[TensorType, ...]:
        TwoHot().infer(attrs, z, target)
        check_gradient_operands(self.name, attrs, z, lse, d_loss=d_loss)
        return (z,)

    def reference(
        self,
        attrs: TwoHotAttrs,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        t = two_hot(attrs, target, z.shape[-1])
        return (((softmax_of(z, lse) - t) * per_row(attrs, d_loss, lse)).astype(z.dtype),)

    def vjp(self, attrs: TwoHotAttrs, back: Backward) -> dict[str, Value]:
        raise VerifyError("two_hot has no second derivative")

    def flops(self, attrs: TwoHotAttrs, z: TensorType, *rest: TensorType) -> int:
        return 7 * z.size

    def samples(self) -> tuple[Sample, ...]:
        found = list[Sample]()
        for sample in TwoHot().samples():
            rows = Draw(sample.operands[1].type)
            d_loss = rows if sample.attrs.get("reduction") == "none" else Draw(f32())
            found.append(Sample((*sample.operands, rows, d_loss), sample.attrs, ()))
        return tuple(found)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(4, 10), f32(4), f32(5), f32()), "do not fit"),)
