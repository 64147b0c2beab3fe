"""Cross-entropy of logits with class numbers as targets, and its first and second gradients.

Label smoothing s replaces the target distribution t by (1 - s)·t + s/C (Szegedy et al. 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError, VerifyError
from noeira.ir import graph
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, IndexLimit, Op, Sample
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, and rows that are read once.
SHAPES = (
    *((1, 1), (7, 10), (100, 10), (40, 9), (35, 15), (18, 16), (19, 17), (17, 33), (3, 5, 127)),
    *((2, 2047), (3, 2049), (2, 4097)),
)


@dataclass(frozen=True)
class SmoothingAttrs(graph.Attrs):
    """smoothing: the share of the target spread evenly over the classes."""

    smoothing: float = 0.0


def check_logits(name: str, z: TensorType) -> tuple[int, ...]:
    """The shape of the rows. Raises DtypeError or ShapeError if these are no logits."""
    if not z.is_float:
        raise DtypeError(f"{name}: logits {z} must be floats")
    if not z.shape:
        raise ShapeError(f"{name}: logits {z} need a class axis")
    return z.shape[:-1]


def check_classes(name: str, z: TensorType, target: TensorType) -> None:
    """Raises ShapeError or DtypeError if `target` is not one class number for each row."""
    if target.shape != check_logits(name, z):
        raise ShapeError(f"{name}: targets {target} must have one entry for each row of {z}")
    if target.dtype != "i32":
        raise DtypeError(f"{name}: targets {target} must be i32")


def class_limit(z: TensorType) -> IndexLimit:
    """What class numbers of these logits stay below."""
    return IndexLimit(z.shape[-1], "classes")


def log_sum_exp(z: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis, shifted by the maximum.

    A row with a NaN, with +∞ or of nothing but -∞ gives NaN, as PyTorch's `log_softmax` does.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        high = z.max(-1, keepdims=True)
        return (np.log(np.exp(z - high).sum(-1, keepdims=True)) + high)[..., 0]


def smoothed(target: np.ndarray, z: np.ndarray, smoothing: float) -> np.ndarray:
    """Class numbers as rows of smoothed probabilities."""
    import numpy as np

    classes = z.shape[-1]
    hot = np.arange(classes) == target[..., None]
    return np.where(hot, 1 - smoothing + smoothing / classes, smoothing / classes).astype(z.dtype)


def one_sample(shape: tuple[int, ...], extra: tuple[Draw, ...], smoothing: float) -> Sample:
    """Logits, targets and further operands."""
    z, rows = TensorType("f32", shape), TensorType("i32", shape[:-1])
    return Sample((Draw(z), Draw(rows, "index", shape[-1]), *extra), {"smoothing": smoothing})


class CrossEntropy(Op):
    """loss = mean over rows of lse(z) - Σ_c t_c z_c, lse(z) = log Σ_c exp z_c; t is the smoothed
    class number.

    z [..., C], target i32[...] below C -> loss [], lse [...]
    """

    name, kind, Attrs = "cross_entropy", "row", SmoothingAttrs
    operands, results = ("z", "target"), ("loss", "lse")

    def infer(
        self, attrs: SmoothingAttrs, z: TensorType, target: TensorType
    ) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        return (TensorType(z.dtype, ()), TensorType(z.dtype, z.shape[:-1]))

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

    def index_limits(self, attrs: Any, operands: tuple[TensorType, ...]) -> dict[int, IndexLimit]:
        return {1: class_limit(operands[0])}

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (z, target), (_, lse), (d_loss, d_lse) = node.inputs, node.outputs, cotangents
        if d_loss is None:
            d_loss = builder.emit("constant", value=0.0, dtype=z.type.dtype, hint="zero")
        extra = () if d_lse is None else (d_lse,)
        smoothing = node.attrs.smoothing  # type: ignore[attr-defined]
        d_z = builder.emit(
            "cross_entropy_grad",
            *(z, target, lse, d_loss, *extra),
            smoothing=smoothing,
            hint=f"d.{z.name}",
        )
        return (d_z, None)

    def flops(
        self,
        attrs: SmoothingAttrs,
        inputs: tuple[TensorType, ...],
        outputs: tuple[TensorType, ...],
    ) -> int:
        return 4 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(one_sample(s, (), smoothing) for s in SHAPES for smoothing in (0.0, 0.1))

    def bad_samples(self) -> tuple[BadSample, ...]:
        z = TensorType("f32", (4, 10))
        return (
            BadSample((z, TensorType("i32", (5,))), "one entry for each row"),
            BadSample((z, TensorType("i64", (4,))), "must be i32"),
            BadSample((TensorType("i32", (4, 10)), TensorType("i32", (4,))), "must be floats"),
        )


class CrossEntropyGrad(Op):
    """d_z = q·(d_loss/R + d_lse) - t·d_loss/R, q = exp(z - lse) the softmax, R the number of rows.

    z [..., C], target i32[...], lse [...], d_loss [], d_lse [...] (optional, 0) -> [..., C].
    Given lse it is element-wise, which makes it differentiable once more:
    `cross_entropy_grad_grad`.
    """

    name, kind, Attrs = "cross_entropy_grad", "row", SmoothingAttrs
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
        rows = TensorType(z.dtype, z.shape[:-1])
        if lse != rows or d_loss != TensorType(z.dtype, ()) or (d_lse or rows) != rows:
            raise ShapeError(f"{self.name}: lse {lse} and d_loss {d_loss} do not fit {z}")
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
        import numpy as np

        with np.errstate(all="ignore"):
            q = np.exp(z - lse[..., None])
        each = (d_loss / max(lse.size, 1)).astype(z.dtype)
        weight = each if d_lse is None else (each + d_lse)[..., None]
        return ((q * weight - smoothed(target, z, attrs.smoothing) * each).astype(z.dtype),)

    def index_limits(self, attrs: Any, operands: tuple[TensorType, ...]) -> dict[int, IndexLimit]:
        return {1: class_limit(operands[0])}

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (d,) = cotangents
        assert d is not None
        z, _, lse, d_loss, *rest = node.inputs
        hints = (f"d.{z.name}", f"d.{lse.name}", f"d.{d_loss.name}", "d.d_lse")
        d_z, d_lse_in, d_d_loss, d_d_lse = builder.emit(
            "cross_entropy_grad_grad",
            *(d, *node.inputs),
            smoothing=node.attrs.smoothing,  # type: ignore[attr-defined]
            hint=hints,
        )
        return (d_z, None, d_lse_in, d_d_loss, *([d_d_lse] if rest else []))

    def flops(
        self,
        attrs: SmoothingAttrs,
        inputs: tuple[TensorType, ...],
        outputs: tuple[TensorType, ...],
    ) -> int:
        return 4 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        def sample(shape: tuple[int, ...], smoothing: float, with_d_lse: bool) -> Sample:
            rows, scalar = Draw(TensorType("f32", shape[:-1])), Draw(TensorType("f32", ()))
            extra = (rows, scalar, rows) if with_d_lse else (rows, scalar)
            return one_sample(shape, extra, smoothing)

        shapes = SHAPES[:-1]
        return tuple(
            sample(s, sm, both) for s in shapes for sm, both in ((0.0, False), (0.1, True))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows = TensorType("f32", (4, 10)), TensorType("f32", (5,))
        target, scalar = TensorType("i32", (4,)), TensorType("f32", ())
        return (BadSample((z, target, rows, scalar), "do not fit"),)


class CrossEntropyGradGrad(Op):
    """The gradient of `cross_entropy_grad`, for a cotangent g [..., C] of its result.

    With q = exp(z - lse), w = d_loss/R + d_lse:
    d_z = g·q·w, d_lse = -Σ_c g·q·w, d_d_loss = Σ g·(q - t)/R, d_d_lse = Σ_c g·q.
    """

    name, kind, Attrs = "cross_entropy_grad_grad", "row", SmoothingAttrs
    operands = ("g", "z", "target", "lse", "d_loss", "d_lse")
    results = ("d_z", "d_lse", "d_d_loss", "d_d_lse")

    def infer(
        self, attrs: SmoothingAttrs, g: TensorType, z: TensorType, *rest: TensorType
    ) -> tuple[TensorType, ...]:
        CrossEntropyGrad().infer(attrs, z, *rest)
        if g != z:
            raise ShapeError(f"{self.name}: the cotangent {g} must be {z}")
        rows = TensorType(z.dtype, z.shape[:-1])
        return (z, rows, TensorType(z.dtype, ()), rows)

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

        with np.errstate(all="ignore"):
            q = np.exp(z - lse[..., None])
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

    def index_limits(self, attrs: Any, operands: tuple[TensorType, ...]) -> dict[int, IndexLimit]:
        return {2: class_limit(operands[1])}

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        raise VerifyError("cross_entropy has no third derivative")

    def flops(
        self,
        attrs: SmoothingAttrs,
        inputs: tuple[TensorType, ...],
        outputs: tuple[TensorType, ...],
    ) -> int:
        return 8 * inputs[0].size

    def samples(self) -> tuple[Sample, ...]:
        out = []
        for sample in CrossEntropyGrad().samples():
            z = sample.operands[0]
            out.append(Sample((z, *sample.operands), sample.attrs, ()))
        return tuple(out)

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows, scalar = (TensorType("f32", s) for s in ((4, 10), (4,), ()))
        g, target = TensorType("f32", (4, 9)), TensorType("i32", (4,))
        return (BadSample((g, z, target, rows, scalar), "must be"),)
