"""Losses of numbers: squared and absolute errors, and what lies between them."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import number
from noeira.nn.losses.base import ElementwiseLoss

__all__ = ["L1", "MSE", "Huber", "SmoothL1"]


class MSE(ElementwiseLoss):
    """mean over all elements of (prediction − target)², as PyTorch's MSELoss: (*), (*) -> ()."""

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("squared_error", prediction, target)

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        if cls.REDUCTION != "mean":
            return super().trace(scope, prediction, target)
        return scope.emit("mse", prediction, target)


class L1(ElementwiseLoss):
    """mean over all elements of |prediction − target|, as PyTorch's L1Loss: (*), (*) -> ().

    Where they are equal the gradient is 0.
    """

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("absolute_error", prediction, target)


class Huber(ElementwiseLoss):
    """mean over all elements of e² / 2 where |e| ≤ delta, else delta · (|e| − delta / 2), e =
    prediction − target, as PyTorch's HuberLoss (Huber 1964): (*), (*) -> ().
    """

    DELTA = number(1.0, above=0.0)

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("huber", prediction, target, delta=cls.DELTA)


class SmoothL1(ElementwiseLoss):
    """mean over all elements of e² / (2 · beta) where |e| < beta, else |e| − beta / 2, e =
    prediction − target, as PyTorch's SmoothL1Loss (Girshick 2015): (*), (*) -> ().

    It is Huber's divided by beta; with beta = 0 it is `L1`.
    """

    BETA = number(1.0, low=0.0)

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("smooth_l1", prediction, target, beta=cls.BETA)
