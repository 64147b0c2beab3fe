"""Ops on rows of a user's own, with their templates beside them: a norm and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noeira.ir import graph
from noeira.ir.checks import check_rows, expect
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.random import constant
from noeira.ir.types import TensorType
from noeira.nn import Module, Param, Scope, size


@dataclass(frozen=True)
class NormAttrs(graph.Attrs):
    """eps: what is added to the variance."""

    eps: float = 1e-5


class OwnNorm(Op):
    """y = (x - mean)·rstd·gain along the last axis, rstd = 1/√(variance + eps).

    x [..., N], gain [N] -> y [..., N], mean [...], rstd [...]
    """

    name, kind, Attrs = "own_norm", "row", NormAttrs
    operands, results, saved = ("x", "gain"), ("", "mean", "rstd"), ("mean", "rstd")
    looks_twice = True
    takes = frozenset({"head", "tail"})

    def infer(self, attrs: NormAttrs, x: TensorType, gain: TensorType) -> tuple[TensorType, ...]:
        rows = TensorType(x.dtype, check_rows(self.name, x))
        expect(self.name, "gain", gain, TensorType(x.dtype, x.shape[-1:]))
        return x, rows, rows

    def reference(
        self, attrs: NormAttrs, x: np.ndarray, gain: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        mean = x.mean(-1, keepdims=True)
        rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(attrs.eps))
        return (x - mean) * rstd * gain, mean[..., 0], rstd[..., 0]

    def vjp(self, attrs: NormAttrs, back: Backward) -> dict[str, Value]:
        (x, gain), (_, mean, rstd), d = back.inputs, back.outputs, back.cotangents[0]
        found = {"x": back.emit("own_norm_grad", d, x, gain, mean, rstd)}
        if back.wants("gain"):
            each = (*mean.type.shape, 1)
            of_rows = [back.emit("reshape", v, shape=each) for v in (mean, rstd)]
            scaled = back.emit("multiply", back.emit("subtract", x, of_rows[0]), of_rows[1])
            product = back.emit("multiply", d, scaled)
            found["gain"] = reduce_to(back, product, gain.type.shape)
        return found


class OwnNormGrad(Op):
    """d_x = rstd·(g - Σ g/N - n·Σ g·n/N) for g = d·gain, n = (x - mean)·rstd

    d [..., N], x [..., N], gain [N], mean [...], rstd [...] -> [..., N]
    """

    name, kind, streams = "own_norm_grad", "row", True
    operands = ("d", "x", "gain", "mean", "rstd")
    takes = frozenset({"head", "tail"})

    def infer(
        self, attrs: graph.Attrs, d: TensorType, x: TensorType, *rest: TensorType
    ) -> tuple[TensorType, ...]:
        expect(self.name, "d", d, x)
        return (x,)

    def reference(
        self, attrs: graph.Attrs, d: np.ndarray, x: np.ndarray, gain: np.ndarray, *rest: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        mean, rstd = (one[..., None] for one in rest)
        g, n = d * gain, (x - mean) * rstd
        apart = g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True)
        return (rstd * apart,)


class Norm(Module):
    """Normalises rows, (*, D) -> (*, D). Parameter: `gain` [D]."""

    D = size()
    gain = Param("D", init=constant(0.75))
    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        return scope.emit("own_norm", x, scope.param("gain"))[0]


class Softmax(Module):
    """Softmax along the last axis."""

    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("softmax", x)


class Scaled(Module):
    """x / 2"""

    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("scale", x, factor=0.5)
