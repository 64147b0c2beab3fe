"""Ops of a user's own with operands and results that are not always there, and not the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noeira.ir import graph
from noeira.ir.checks import check_rows, expect
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.random import constant
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType
from noeira.nn import Module, Param, Scope, size


@dataclass(frozen=True)
class GivenAttrs(graph.Attrs):
    """rms: without means. gained: whether there is a gain."""

    rms: bool = False
    gained: bool = False


class GivenNorm(Op):
    """y = (x - mean)·rstd·gain + shift, rstd = 1/√(Σ (x - mean)²/N + 1)

    x [..., N], gain [N] (gained), shift [N] -> y [..., N], mean [...] (not rms), rstd [...]
    """

    name, kind, Attrs = "given_norm", "row", GivenAttrs
    operands, results, saved = ("x", "gain", "shift"), ("", "mean", "rstd"), ("mean",)
    takes = frozenset({"head", "tail"})

    def given_operands(self, attrs: GivenAttrs) -> tuple[str, ...]:
        return self.operands if attrs.gained else ("x", "shift")

    def given_results(self, attrs: GivenAttrs) -> tuple[str, ...]:
        return ("", "rstd") if attrs.rms else self.results

    def infer(
        self, attrs: GivenAttrs, x: TensorType, gain: TensorType | None, shift: TensorType
    ) -> tuple[TensorType, ...]:
        rows = TensorType(x.dtype, check_rows(self.name, x))
        for name, one in (("gain", gain), ("shift", shift)):
            expect(self.name, name, one, TensorType(x.dtype, x.shape[-1:]))
        return (x, rows) if attrs.rms else (x, rows, rows)

    def reference(
        self, attrs: GivenAttrs, x: np.ndarray, gain: np.ndarray | None, shift: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        mean = x.mean(-1, keepdims=True) * (not attrs.rms)
        rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1)
        y = (x - mean) * rstd * (1 if gain is None else gain) + shift
        every = y, mean[..., 0], rstd[..., 0]
        return (every[0], every[2]) if attrs.rms else every

    def flops(
        self, attrs: GivenAttrs, x: TensorType, gain: TensorType | None, shift: TensorType
    ) -> int:
        return x.size * (6 if gain is None else 7)

    def vjp(self, attrs: GivenAttrs, back: Backward) -> dict[str, Value]:
        (_, gain, _), (_, mean, _) = back.inputs, back.outputs
        d_y, d_mean, _ = back.cotangents
        assert (gain is None) == (not attrs.gained) and (mean is None) == attrs.rms
        assert d_y is not None and d_mean is None and not back.wants("gain")
        return {"shift": back.emit("sum", d_y, axes=tuple(range(len(d_y.type.shape) - 1)))}


class GivenAffine(Elementwise):
    """x·gain + shift, or with rms x² + shift, the gain where it is given"""

    name, Attrs, operands = "given_affine", GivenAttrs, ("x", "gain", "shift")

    def given_operands(self, attrs: GivenAttrs) -> tuple[str, ...]:
        return self.operands if attrs.gained else ("x", "shift")

    def expression(self, attrs: GivenAttrs) -> Expr:
        x = var("x") * var("x") if attrs.rms else var("x")
        return (x * var("gain") if attrs.gained else x * 3) + var("shift")


class Norm(Module):
    """The norm, (*, D) -> (*, D); its rstd is a factor besides. Parameter: `shift` [D]."""

    D = size()
    shift = Param("D", init=constant(0.25))
    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        y, rstd = scope.emit("given_norm", x, scope.param("shift"), rms=True)
        return y * scope.emit("reshape", rstd, shape=(*rstd.type.shape, 1))


class Affine(Module):
    """One after the other: squared or not, with a gain or not. Parameters: `gain`, `shift` [D]."""

    D = size()
    gain, shift = Param("D", init=constant(0.75)), Param("D", init=constant(0.25))
    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        gain, shift = scope.param("gain"), scope.param("shift")
        x = scope.emit("given_affine", x, shift, rms=True)
        x = scope.emit("given_affine", x, gain, shift, gained=True)
        x = scope.emit("given_affine", x, gain, shift, gained=True, rms=True)
        return scope.emit("given_affine", x, shift)
