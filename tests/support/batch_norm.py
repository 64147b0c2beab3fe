"""Batch normalisation as a user would write it: an op over columns with a kernel of its own, which
lies beside this file, an element-wise op that reads what it gives, a layer, and networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noeira.ir.checks import check_rows
from noeira.ir.gradients import Backward
from noeira.ir.graph import Attrs, Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.random import constant
from noeira.ir.samples import Sample, each
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType
from noeira.nn import Buffer, Fused, Linear, Module, Param, ReLU, Scope, Sequential, Tanh, size

EPS = 1e-5
MOMENTUM = 0.25


@dataclass(frozen=True)
class StatisticsAttrs(Attrs):
    """eps: is added to the variance."""

    eps: float = EPS


class ColumnStatistics(Op):
    """Mean and 1 / √(variance + eps) over all axes but the last: [..., N] -> [N], [N]."""

    name, kind, operands, results = "column_statistics", "column", ("x",), ("mean", "rstd")
    takes = frozenset({"head"})
    Attrs = StatisticsAttrs

    def infer(self, attrs: StatisticsAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, x)
        return (TensorType(x.dtype, x.shape[-1:]),) * 2

    def reference(self, attrs: StatisticsAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = x.reshape(-1, x.shape[-1])
        rstd = 1 / np.sqrt(rows.var(0) + x.dtype.type(attrs.eps))
        return rows.mean(0), rstd.astype(x.dtype)

    def vjp(self, attrs: StatisticsAttrs, back: Backward) -> dict[str, Value]:
        (x,), (mean, rstd) = back.inputs, back.outputs
        flows = [d or back.emit("constant", value=0.0, dtype=x.type.dtype) for d in back.cotangents]
        rows = x.type.size // x.type.shape[-1]
        return {"x": back.emit("column_statistics_grad", x, mean, rstd, *flows, rows=rows)}

    def samples(self) -> tuple[Sample, ...]:
        return each((7, 16), (100, 33), (2, 65, 127))


@dataclass(frozen=True)
class RowsAttrs(Attrs):
    """rows: that the statistics are of."""

    rows: int = 1


class ColumnStatisticsGrad(Elementwise):
    """(d_mean − d_rstd · rstd³ · (x − mean)) / rows"""

    name, operands = "column_statistics_grad", ("x", "mean", "rstd", "d_mean", "d_rstd")
    Attrs = RowsAttrs

    def expression(self, attrs: RowsAttrs) -> Expr:
        x, mean, rstd, d_mean, d_rstd = map(var, self.operands)
        cube = rstd * rstd * rstd
        return (d_mean - d_rstd * cube * (x - mean)) * (1 / attrs.rows)


class OwnNormalize(Elementwise):
    """(x − mean) · rstd · gain + shift"""

    name, operands = "own_normalize", ("x", "mean", "rstd", "gain", "shift")

    def expression(self, attrs: Any) -> Expr:
        x, mean, rstd, gain, shift = map(var, self.operands)
        return (x - mean) * rstd * gain + shift

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        """Two sums over one reading give what all operands but x need."""
        d, (x, mean, rstd, gain, _) = back.cotangent, back.inputs
        d_shift, d_gain = back.emit("own_normalize_sums", d, x, mean, rstd)
        found = {
            "x": back.emit("own_normalize.d0", d, rstd, gain),
            "gain": d_gain,
            "shift": d_shift,
        }
        if back.wants("mean"):
            slope = back.emit("multiply", back.emit("multiply", d_shift, rstd), gain)
            found["mean"] = back.emit("scale", slope, factor=-1.0)
            found["rstd"] = back.emit("divide", back.emit("multiply", d_gain, gain), rstd)
        return found


class OwnNormalizeSums(Op):
    """Σ d and Σ d · (x − mean) · rstd over all axes but the last: [..., N] -> [N], [N]."""

    name, kind, operands = "own_normalize_sums", "column", ("d", "x", "mean", "rstd")
    results = ("shift", "gain")
    takes = frozenset({"head"})

    def infer(self, attrs: Attrs, d: TensorType, *_: TensorType) -> tuple[TensorType, ...]:
        check_rows(self.name, d)
        return (TensorType(d.dtype, d.shape[-1:]),) * 2

    def reference(
        self, attrs: Attrs, d: np.ndarray, x: np.ndarray, mean: np.ndarray, rstd: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        axes = tuple(range(d.ndim - 1))
        return d.sum(axes), (d * ((x - mean) * rstd)).sum(axes)


class BatchNorm1D(Module):
    """(x − mean) · rstd · gain + shift, (DIM) -> (DIM), in one call: statistics of the batch in
    training, of all batches so far in evaluation.
    """

    DIM = size()
    gain = Param("DIM", init=constant(1.0))
    shift = Param("DIM", init=constant(0.0))
    mean = Buffer("DIM", init=constant(0.0))
    rstd = Buffer("DIM", init=constant(1.0))
    signature = "(DIM) -> (DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return cls.normalized(scope if scope.group else scope.fused(), x)

    @classmethod
    def normalized(cls, scope: Scope, x: Value) -> Value:
        """The layer, its nodes in the kernel of the scope."""
        mean, rstd = scope.param("mean"), scope.param("rstd")
        if scope.phase == "train":
            old = {"mean": mean, "rstd": rstd}
            mean, rstd = scope.emit("column_statistics", x)
            for name, new in (("mean", mean), ("rstd", rstd)):
                step = scope.emit("scale", scope.emit("subtract", new, old[name]), factor=MOMENTUM)
                scope.update(name, scope.emit("add", old[name], step))
        gain, shift = scope.param("gain"), scope.param("shift")
        return scope.emit("own_normalize", x, mean, rstd, gain, shift)


class Apart(BatchNorm1D):
    """The same, each op a call of its own."""

    DIM = size()

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return cls.normalized(scope, x)


class Net(
    Sequential[
        Fused[Linear[6, 8], BatchNorm1D[8], ReLU],
        Fused[BatchNorm1D[8], Tanh],
        BatchNorm1D[8],
        Linear[8, 3],
    ]
):
    """Behind a product, with an activation, and alone."""


class Twin(
    Sequential[
        Sequential[Linear[6, 8], Apart[8], ReLU],
        Sequential[Apart[8], Tanh],
        Apart[8],
        Linear[8, 3],
    ]
):
    """The same, nothing fused."""
