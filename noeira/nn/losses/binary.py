"""Losses of two classes, given by one logit."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import number
from noeira.nn.losses.base import ElementwiseLoss

__all__ = ["BCEWithLogits", "BinaryFocalLoss"]


class BCEWithLogits(ElementwiseLoss):
    """mean over all elements of −w·t·log σ(x) − (1 − t)·log(1 − σ(x)), x a logit, t the target from
    0 to 1, w the pos_weight, as PyTorch's BCEWithLogitsLoss: (*), (*) -> ().

    Computed as (1 − t)·x + (1 + (w − 1)·t)·softplus(−x), which is finite for every logit.
    """

    POS_WEIGHT = number(1.0, above=0.0)

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        weight = cls.POS_WEIGHT
        return scope.emit("binary_cross_entropy", prediction, target, positive_weight=weight)


class BinaryFocalLoss(ElementwiseLoss):
    """mean over all elements of −alpha·t·(1 − p)^gamma·log p − (1 − alpha)·(1 − t)·p^gamma·log(1 −
    p), p = σ(x) of a logit x, t the target, 0 or 1 (Lin et al. 2017): (*), (*) -> ().

    The form of torchvision's sigmoid_focal_loss, which sums unless told otherwise.
    """

    GAMMA = number(2.0, low=0.0)
    ALPHA = number(0.25, low=0.0, high=1.0)

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("binary_focal", prediction, target, gamma=cls.GAMMA, alpha=cls.ALPHA)
