"""Cross-entropy of logits with class numbers as targets, and its first and second gradients.

Label smoothing s replaces the target distribution t by (1 - s)·t + s/C (Szegedy et al. 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError, VerifyError
from noeira.ir.checks import check_classes
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.logits import (
    CASES,
    SHAPES,
    ClassNumbers,
    LogitLoss,
    LogitLossAttrs,
    LogitOp,
    check_gradient_operands,
    log_sum_exp,
    loss_type,
    per_row,
    reduced,
    softmax_of,
)
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np


def smoothed(target: np.ndarray, z: np.ndarray, smoothing: float) -> np.ndarray:
    """Class numbers as rows of smoothed probabilities."""
    import numpy as np

    classes = z.shape[-1]
    hot = np.arange(classes) == target[..., None]
    return np.where(hot, 1 - smoothing + smoothing / classes, smoothing / classes).astype(z.dtype)


def one_sample(shape: tuple[int, ...], extra: tuple[Draw, ...], attrs: dict[str, Any]) -> Sample:
    """Logits, targets and further operands."""
    target = Draw(i32(*shape[:-1]), "index", shape[-1])
    return Sample((Draw(f32(*shape)), target, *extra), attrs)


class CrossEntropy(LogitLoss, ClassNumbers):
    """loss = mean over rows of lse(z) - Σ_c t_c z_c, lse(z) = log Σ_c exp z_c; t is the smoothed
    class number.

    z [..., C], target i32[...] below C -> loss [], lse [...]. With reduction `sum` the loss is the
    sum over rows; with `none` it is that of each row, loss [...].
    """

    name = "cross_entropy"

    def infer(
        self, attrs: LogitLossAttrs, z: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        return self.of_logits(attrs, z)

    def reference(
        self, attrs: LogitLossAttrs, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        lse = log_sum_exp(z)
        picked = np.take_along_axis(z, target[..., None].astype(np.int64), -1)[..., 0]
        rows = lse - picked
        if attrs.smoothing:
            # lse - Σ t z with Σ t = 1, as a mixture of the two ends.
            s = z.dtype.type(attrs.smoothing)
            rows = (1 - s) * rows + s * (lse - z.mean(-1))
        return (reduced(attrs, rows).astype(z.dtype), lse)

    def vjp(self, attrs: LogitLossAttrs, back: Backward) -> dict[str, Value]:
        (z, target), (_, lse), (d_loss, d_lse) = back.inputs, back.outputs, back.cotangents
        if d_loss is None:
            d_loss = back.emit("constant", value=0.0, dtype=lse.type.dtype)
            if attrs.by_row:
                d_loss = back.emit("broadcast", d_loss, shape=lse.type.shape)
        operands = [value for value in (z, target, lse, d_loss, d_lse) if value is not None]
        return {"z": back.emit("cross_entropy_grad", *operands, **vars(attrs))}

    def flops(self, attrs: LogitLossAttrs, z: TensorType, target: TensorType) -> int:
        return 4 * z.size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(one_sample(shape, (), attrs) for shape, attrs in CASES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z = f32(4, 10)
        return (
            BadSample((z, i32(5)), "one entry for each row"),
            BadSample((z, TensorType("i64", (4,))), "must be i32"),
            BadSample((i32(4, 10), i32(4)), "must be floats"),
        )


class CrossEntropyGrad(LogitOp, ClassNumbers):
    """d_z = q·(d_loss/R + d_lse) - t·d_loss/R, q = exp(z - lse) the softmax, R the number of rows;
    with reduction `sum` or `none` d_loss is not divided by it.

    z [..., C], target i32[...], lse [...], d_loss [], with `none` [...], d_lse [...] (optional, 0)
    -> [..., C].
    Given lse it is element-wise, which makes it differentiable once more:
    `cross_entropy_grad_grad`.
    """

    name, streams = "cross_entropy_grad", True
    operands = ("z", "target", "lse", "d_loss", "d_lse")

    def infer(
        self,
        attrs: LogitLossAttrs,
        z: TensorType,
        target: TensorType,
        lse: TensorType,
        d_loss: TensorType,
        d_lse: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        rows = (lse, *([d_lse] if d_lse else []))
        check_gradient_operands(self.name, attrs, z, *rows, d_loss=d_loss)
        return (z,)

    def reference(
        self,
        attrs: LogitLossAttrs,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
        d_lse: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        q, each = softmax_of(z, lse), per_row(attrs, d_loss, lse)
        weight = each if d_lse is None else each + d_lse[..., None]
        return ((q * weight - smoothed(target, z, attrs.smoothing) * each).astype(z.dtype),)

    def vjp(self, attrs: LogitLossAttrs, back: Backward) -> dict[str, Value]:
        d_z, d_lse_in, d_d_loss, d_d_lse = back.emit(
            "cross_entropy_grad_grad", back.cotangent, *back.node.inputs, **vars(attrs)
        )
        found = {"z": d_z, "lse": d_lse_in, "d_loss": d_d_loss}
        return found | ({"d_lse": d_d_lse} if back.wants("d_lse") else {})

    def flops(self, attrs: LogitLossAttrs, z: TensorType, *rest: TensorType) -> int:
        return 4 * z.size

    def samples(self) -> tuple[Sample, ...]:
        def sample(shape: tuple[int, ...], attrs: dict[str, Any], with_d_lse: bool) -> Sample:
            rows = Draw(f32(*shape[:-1]))
            d_loss = rows if attrs.get("reduction") == "none" else Draw(f32())
            extra = (rows, d_loss, rows) if with_d_lse else (rows, d_loss)
            return one_sample(shape, extra, attrs)

        # With smoothing, what comes to the logarithms from elsewhere is there, too.
        return tuple(
            sample(shape, attrs, bool(attrs.get("smoothing")))
            for shape, attrs in CASES
            if shape != SHAPES[-1]
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows = f32(4, 10), f32(5)
        target, scalar = i32(4), f32()
        return (BadSample((z, target, rows, scalar), "do not fit"),)


class CrossEntropyGradGrad(LogitOp, ClassNumbers):
    """The gradient of `cross_entropy_grad`, for a cotangent g [..., C] of its result.

    With q = exp(z - lse), w = d_loss/R + d_lse:
    d_z = g·q·w, d_lse = -Σ_c g·q·w, d_d_loss = Σ g·(q - t)/R, d_d_lse = Σ_c g·q. With reduction
    `sum` nothing is divided by R, nor with `none`, where d_d_loss is Σ_c g·(q - t) of each row.
    """

    name, totals = "cross_entropy_grad_grad", True
    operands = ("g", "z", "target", "lse", "d_loss", "d_lse")
    results = ("d_z", "d_lse", "d_d_loss", "d_d_lse")

    def infer(
        self,
        attrs: LogitLossAttrs,
        g: TensorType,
        z: TensorType,
        target: TensorType,
        lse: TensorType,
        d_loss: TensorType,
        d_lse: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        CrossEntropyGrad().infer(attrs, z, target, lse, d_loss, d_lse)
        if g != z:
            raise ShapeError(f"{self.name}: the cotangent {g} must be {z}")
        rows = TensorType(computed(z.dtype), z.shape[:-1])
        return (z, rows, loss_type(attrs, z), rows)

    def reference(
        self,
        attrs: LogitLossAttrs,
        g: np.ndarray,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
        d_lse: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        q, dtype = softmax_of(z, lse), z.dtype
        weight = per_row(attrs, d_loss, lse) + (0 if d_lse is None else d_lse[..., None])
        d_z = g * q * weight
        d_d_loss = (g * (q - smoothed(target, z, attrs.smoothing))).sum(-1)
        return (
            d_z.astype(dtype),
            -d_z.sum(-1).astype(dtype),
            reduced(attrs, d_d_loss).astype(dtype),
            (g * q).sum(-1).astype(dtype),
        )

    def vjp(self, attrs: LogitLossAttrs, back: Backward) -> dict[str, Value]:
        raise VerifyError("cross_entropy has no third derivative")

    def flops(self, attrs: LogitLossAttrs, g: TensorType, *rest: TensorType) -> int:
        return 8 * g.size

    def samples(self) -> tuple[Sample, ...]:
        out = []
        for sample in CrossEntropyGrad().samples():
            z = sample.operands[0]
            out.append(Sample((z, *sample.operands), sample.attrs, ()))
        return tuple(out)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows, scalar = (f32(*s) for s in ((4, 10), (4,), ()))
        g, target = f32(4, 9), i32(4)
        return (BadSample((g, z, target, rows, scalar), "must be"),)
