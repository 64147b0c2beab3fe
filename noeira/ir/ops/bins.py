"""Numbers as distributions over bins, evenly spaced from `low` to `high`: their two-hot encoding,
and the mean over the bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import check_number, check_rows
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, and the numbers of bins in use.
SHAPES = ((1, 2), (7, 41), (5, 17), (3, 4, 16), (33, 255), (2, 2049))
# Bounds of samples, which are numbers about 0.
BOUNDS = {"low": -0.75, "high": 20.0}


@dataclass(frozen=True)
class BinAttrs(graph.Attrs):
    """low, high: the first bin and the last."""

    low: float = -1.0
    high: float = 1.0

    def step(self, bins: int) -> float:
        """How far apart neighbours are."""
        return (self.high - self.low) / (bins - 1)

    def per_step(self, bins: int) -> float:
        """How many there are in a length of 1."""
        return (bins - 1) / (self.high - self.low)


@dataclass(frozen=True)
class EncodingAttrs(BinAttrs):
    """symlog: whether numbers are encoded by sign(x)·log(1 + |x|)."""

    symlog: bool = False


@dataclass(frozen=True)
class ManyBinAttrs(BinAttrs):
    """bins: how many there are."""

    bins: int = 2


@dataclass(frozen=True)
class ManyEncodingAttrs(EncodingAttrs):
    """bins: how many there are."""

    bins: int = 2


def check_bins(name: str, attrs: BinAttrs, bins: int, dtype: str) -> None:
    """Raises ShapeError, or DtypeError, for what are no bins."""
    if bins < 2:
        raise ShapeError(f"{name}: there must be at least 2 bins, not {bins}")
    for bound in (attrs.low, attrs.high):
        check_number(name, bound, computed(dtype))
    if not attrs.low < attrs.high:
        raise ShapeError(f"{name}: low, {attrs.low!r}, must be below high, {attrs.high!r}")


def check_column(name: str, what: str, x: TensorType) -> None:
    """Raises ShapeError, or DtypeError, unless there is one float for each row."""
    check_rows(name, x)
    if x.shape[-1] != 1:
        raise ShapeError(f"{name}: {what} is {x}, which must have one number a row")


def bin_centres(attrs: BinAttrs, dtype: Any, bins: int) -> np.ndarray:
    """What the bins stand for."""
    import numpy as np

    made = np.dtype(dtype).type
    return np.arange(bins, dtype=dtype) * made(attrs.step(bins)) + made(attrs.low)


def two_hot(attrs: EncodingAttrs, x: np.ndarray, bins: int) -> np.ndarray:
    """The encoding of each number. Its place is found in f64: among many bins the digits of an f32
    would be those of its bin, and none be left for the shares.
    """
    import numpy as np

    wide = x.astype("f8")
    value = np.copysign(np.log1p(abs(wide)), wide) if attrs.symlog else wide
    place = np.clip((value - attrs.low) * attrs.per_step(bins), 0, bins - 1)[..., None]
    return np.maximum(1 - abs(place - np.arange(bins)), 0).astype(x.dtype)


class TwoHotEncode(Op):
    """y[…, c] = max(0, 1 - |p - c|) for the place p = (x - low)·(bins - 1)/(high - low) of a
    number, clamped to 0 … bins - 1: x [..., 1] -> y [..., BINS]

    A row has two neighbours that are not 0, or one, sums to 1, and has the mean x (Bellemare et al.
    2017; Schrittwieser et al. 2019). With symlog of sign(x)·log(1 + |x|) in place of x (Hafner et
    al. 2023). NaN gives rows of NaN. There is no gradient: targets are not learnt.
    """

    name, kind, operands, Attrs = "two_hot_encode", "row", ("x",), ManyEncodingAttrs
    streams = True

    def infer(self, attrs: ManyEncodingAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_column(self.name, "x", x)
        check_bins(self.name, attrs, attrs.bins, x.dtype)
        return (TensorType(x.dtype, (*x.shape[:-1], attrs.bins)),)

    def rows(self, attrs: ManyEncodingAttrs, x: TensorType) -> TensorType:
        return TensorType(x.dtype, (*x.shape[:-1], attrs.bins))

    def reference(self, attrs: ManyEncodingAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (two_hot(attrs, x[..., 0], attrs.bins),)

    def vjp(self, attrs: ManyEncodingAttrs, back: Backward) -> dict[str, Value]:
        return {}

    def flops(self, attrs: ManyEncodingAttrs, x: TensorType) -> int:
        return 4 * x.size * attrs.bins

    def samples(self) -> tuple[Sample, ...]:
        # With symlog steps are long: log1p may differ in its last digit, the shares then in more.
        bounds = ({**BOUNDS, "symlog": False}, {"low": -0.75, "high": 2000.0, "symlog": True})
        return tuple(
            Sample((Draw(f32(*shape, 1)),), {**own, "bins": bins}, ())
            for *shape, bins in SHAPES
            for own in bounds
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4),), "one number a row"),
            BadSample((f32(),), "has no axis"),
            BadSample((i32(3, 1),), "is not a float"),
            BadSample((f32(3, 1),), "at least 2 bins, not 1", {"bins": 1}),
            BadSample((f32(3, 1),), "low, 1.0, must be below high, 1.0", {"low": 1.0}),
            BadSample((f32(3, 1),), "1e+300 does not fit in f32", {"high": 1e300}),
        )


class BinMean(Op):
    """Σ_c p_c·b_c with b_c = low + c·(high - low)/(C - 1), of a row of probabilities their mean:
    p [..., C] -> [..., 1]
    """

    name, kind, operands, Attrs = "bin_mean", "row", ("p",), BinAttrs
    takes = frozenset({"head"})

    def infer(self, attrs: BinAttrs, p: TensorType) -> tuple[TensorType, ...]:
        rows = check_rows(self.name, p)
        check_bins(self.name, attrs, p.shape[-1], p.dtype)
        return (TensorType(p.dtype, (*rows, 1)),)

    def reference(self, attrs: BinAttrs, p: np.ndarray) -> tuple[np.ndarray, ...]:
        centres = bin_centres(attrs, p.dtype, p.shape[-1])
        return ((p * centres).sum(-1, keepdims=True).astype(p.dtype),)

    def vjp(self, attrs: BinAttrs, back: Backward) -> dict[str, Value]:
        bins = back.inputs[0].type.shape[-1]
        given = {"low": attrs.low, "high": attrs.high, "bins": bins}
        return {"p": back.emit("bin_spread", back.cotangent, **given)}

    def flops(self, attrs: BinAttrs, p: TensorType) -> int:
        return 4 * p.size

    def samples(self) -> tuple[Sample, ...]:
        return tuple(Sample((Draw(f32(*shape), "probabilities"),), BOUNDS) for shape in SHAPES)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(),), "has no axis"),
            BadSample((f32(3, 1),), "at least 2 bins, not 1"),
            BadSample((i32(3, 4),), "is not a float"),
        )


class BinSpread(Op):
    """y[…, c] = d·b_c, the gradient of `bin_mean`, and the other way: d [..., 1] -> [..., C]"""

    name, kind, operands, Attrs = "bin_spread", "row", ("d",), ManyBinAttrs
    streams = True

    def infer(self, attrs: ManyBinAttrs, d: TensorType) -> tuple[TensorType, ...]:
        check_column(self.name, "d", d)
        check_bins(self.name, attrs, attrs.bins, d.dtype)
        return (TensorType(d.dtype, (*d.shape[:-1], attrs.bins)),)

    def rows(self, attrs: ManyBinAttrs, d: TensorType) -> TensorType:
        return TensorType(d.dtype, (*d.shape[:-1], attrs.bins))

    def reference(self, attrs: ManyBinAttrs, d: np.ndarray) -> tuple[np.ndarray, ...]:
        return (d * bin_centres(attrs, d.dtype, attrs.bins),)

    def vjp(self, attrs: ManyBinAttrs, back: Backward) -> dict[str, Value]:
        return {"d": back.emit("bin_mean", back.cotangent, low=attrs.low, high=attrs.high)}

    def flops(self, attrs: ManyBinAttrs, d: TensorType) -> int:
        return 3 * d.size * attrs.bins

    def samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample((Draw(f32(*shape, 1)),), {**BOUNDS, "bins": bins}) for *shape, bins in SHAPES
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3, 4),), "one number a row"),
            BadSample((f32(3, 1),), "at least 2 bins, not 0", {"bins": 0}),
        )
