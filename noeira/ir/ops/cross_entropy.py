"""Cross-entropy of logits with class numbers as targets, and its first and second gradients.

Label smoothing s replaces the target distribution t by (1 - s)·t + s/C (Szegedy et al. 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.errors import ShapeError, VerifyError
from noeira.ir.checks import check_classes
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.logits import (
    CASES,
    SHAPES,
    ClassNumbers,
    LogitLoss,
    SmoothingAttrs,
    check_gradient_operands,
    log_sum_exp,
    per_row,
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


def one_sample(shape: tuple[int, ...], extra: tuple[Draw, ...], smoothing: float) -> Sample:
    """Logits, targets and further operands."""
    target = Draw(i32(*shape[:-1]), "index", shape[-1])
    return Sample((Draw(f32(*shape)), target, *extra), {"smoothing": smoothing})


class CrossEntropy(LogitLoss, ClassNumbers):
    """loss = mean over rows of lse(z) - Σ_c t_c z_c, lse(z) = log Σ_c exp z_c; t is the smoothed
    class number.

    z [..., C], target i32[...] below C -> loss [], lse [...]
    """

    name = "cross_entropy"

    def infer(
        self, attrs: SmoothingAttrs, z: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        return self.of_logits(z)

    def reference(
        self, attrs: SmoothingAttrs, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        lse = log_sum_exp(z)
        picked = np.take_along_axis(z, target[..., None].astype(np.int64), -1)[..., 0]
        rows = lse - picked
        if attrs.smoothing:
            # lse - Σ t z with Σ t = 1, as a mixture of the two ends.
            s = z.dtype.type(attrs.smoothing)
            rows = (1 - s) * rows + s * (lse - z.mean(-1))
        return (rows.mean().astype(z.dtype), lse)

    def vjp(self, attrs: SmoothingAttrs, back: Backward) -> dict[str, Value]:
        (z, target), (_, lse), (d_loss, d_lse) = back.inputs, back.outputs, back.cotangents
        if d_loss is None:
            d_loss = back.emit("constant", value=0.0, dtype=lse.type.dtype)
        operands = [value for value in (z, target, lse, d_loss, d_lse) if value is not None]
        return {"z": back.emit("cross_entropy_grad", *operands, smoothing=attrs.smoothing)}

    def flops(self, attrs: SmoothingAttrs, z: TensorType, target: TensorType) -> int:
        return 4 * z.size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(one_sample(s, (), smoothing) for s, smoothing in CASES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z = f32(4, 10)
        return (
            BadSample((z, i32(5)), "one entry for each row"),
            BadSample((z, TensorType("i64", (4,))), "must be i32"),
            BadSample((i32(4, 10), i32(4)), "must be floats"),
        )


class CrossEntropyGrad(ClassNumbers):
    """d_z = q·(d_loss/R + d_lse) - t·d_loss/R, q = exp(z - lse) the softmax, R the number of rows.

    z [..., C], target i32[...], lse [...], d_loss [], d_lse [...] (optional, 0) -> [..., C].
    Given lse it is element-wise, which makes it differentiable once more:
    `cross_entropy_grad_grad`.
    """

    name, kind, Attrs = "cross_entropy_grad", "row", SmoothingAttrs
    streams = True
    operands = ("z", "target", "lse", "d_loss", "d_lse")

    def infer(
        self,
        attrs: SmoothingAttrs,
        z: TensorType,
        target: TensorType,
        lse: TensorType,
        d_loss: TensorType,
        d_lse: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        check_gradient_operands(self.name, z, lse, *([d_lse] if d_lse else []), d_loss=d_loss)
        return (z,)

    def reference(
        self,
        attrs: SmoothingAttrs,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
        d_lse: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        q, each = softmax_of(z, lse), per_row(d_loss, lse)
        weight = each if d_lse is None else (each + d_lse)[..., None]
        return ((q * weight - smoothed(target, z, attrs.smoothing) * each).astype(z.dtype),)

    def vjp(self, attrs: SmoothingAttrs, back: Backward) -> dict[str, Value]:
        d_z, d_lse_in, d_d_loss, d_d_lse = back.emit(
            "cross_entropy_grad_grad", back.cotangent, *back.node.inputs, smoothing=attrs.smoothing
        )
        found = {"z": d_z, "lse": d_lse_in, "d_loss": d_d_loss}
        return found | ({"d_lse": d_d_lse} if back.wants("d_lse") else {})

    def flops(self, attrs: SmoothingAttrs, z: TensorType, *rest: TensorType) -> int:
        return 4 * z.size

    def samples(self) -> tuple[Sample, ...]:
        def sample(shape: tuple[int, ...], smoothing: float, with_d_lse: bool) -> Sample:
            rows, scalar = Draw(f32(*shape[:-1])), Draw(f32())
            extra = (rows, scalar, rows) if with_d_lse else (rows, scalar)
            return one_sample(shape, extra, smoothing)

        shapes = SHAPES[:-1]
        return tuple(
            sample(s, sm, both) for s in shapes for sm, both in ((0.0, False), (0.1, True))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows = f32(4, 10), f32(5)
        target, scalar = i32(4), f32()
        return (BadSample((z, target, rows, scalar), "do not fit"),)


class CrossEntropyGradGrad(ClassNumbers):
    """The gradient of `cross_entropy_grad`, for a cotangent g [..., C] of its result.

    With q = exp(z - lse), w = d_loss/R + d_lse:
    d_z = g·q·w, d_lse = -Σ_c g·q·w, d_d_loss = Σ g·(q - t)/R, d_d_lse = Σ_c g·q.
    """

    name, kind, totals, Attrs = "cross_entropy_grad_grad", "row", True, SmoothingAttrs
    operands = ("g", "z", "target", "lse", "d_loss", "d_lse")
    results = ("d_z", "d_lse", "d_d_loss", "d_d_lse")

    def infer(
        self,
        attrs: SmoothingAttrs,
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
        return (z, rows, TensorType(rows.dtype, ()), rows)

    def reference(
        self,
        attrs: SmoothingAttrs,
        g: np.ndarray,
        z: np.ndarray,
        target: np.ndarray,
        lse: np.ndarray,
        d_loss: np.ndarray,
        d_lse: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        q = softmax_of(z, lse)
        rows = z.dtype.type(max(lse.size, 1))
        weight = (d_loss / rows + (0 if d_lse is None else d_lse)) * np.ones_like(lse)
        d_z = g * q * weight[..., None]
        d_d_loss = (g * (q - smoothed(target, z, attrs.smoothing))).sum() / rows
        dtype = z.dtype
        return (
            d_z.astype(dtype),
            -d_z.sum(-1).astype(dtype),
            np.asarray(d_d_loss, dtype)[()],
            (g * q).sum(-1).astype(dtype),
        )

    def vjp(self, attrs: SmoothingAttrs, back: Backward) -> dict[str, Value]:
        raise VerifyError("cross_entropy has no third derivative")

    def flops(self, attrs: SmoothingAttrs, g: TensorType, *rest: TensorType) -> int:
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
