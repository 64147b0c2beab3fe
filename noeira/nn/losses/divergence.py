"""Kullback-Leibler divergences of categorical distributions."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import choice, flag
from noeira.nn.losses.base import ElementwiseLoss, Loss
from noeira.nn.losses.classes import row_losses

__all__ = ["CategoricalKL", "KLDivergence", "KLWithLogits"]


def soft_rows(loss: type[Loss], scope: Scope, logits: Value, target: Value) -> Value:
    """The cross-entropies of rows of probabilities."""
    return row_losses(loss, scope, "soft_cross_entropy", logits, target, reduction="none")


class KLDivergence(ElementwiseLoss):
    """mean over all elements of t · (log t − x), x a log-probability and t the probability that is
    the target, as PyTorch's KLDivLoss: (*), (*) -> ().

    `log_target`: the target is log t. `reduction='batchmean'` is the sum over the number of
    samples: the mean of the divergences KL(t ‖ exp x) of samples that are one distribution each.
    """

    LOG_TARGET = flag(False)
    REDUCTION = choice("mean", "batchmean", "sum", "none")

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("kl_divergence", prediction, target, log_target=cls.LOG_TARGET)


class KLWithLogits(ElementwiseLoss):
    """mean over rows of KL(t ‖ softmax x) = Σ_c t_c · (log t_c − log softmax(x)_c), x logits and t
    the row of probabilities that is the target: (*, C), (*, C) -> ().
    """

    signature = "(*, C), (*, C) -> ()"

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        crossed = soft_rows(cls, scope, prediction, target)
        own = scope.emit("negative_entropy", target)
        return crossed, scope.emit("sum", own, axes=(-1,))

    @classmethod
    def each(cls, scope: Scope, crossed: Value, own: Value) -> Value:
        return scope.emit("add", crossed, own)


class CategoricalKL(ElementwiseLoss):
    """mean over rows of KL(softmax y ‖ softmax x) = Σ_c softmax(y)_c · (log softmax(y)_c − log
    softmax(x)_c), x and y logits: (*, C), (*, C) -> ().

    x is the prediction, y the target. Inside a module both have gradients.
    """

    signature = "(*, C), (*, C) -> ()"

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        probabilities = scope.emit("softmax", target)
        crossed = soft_rows(cls, scope, prediction, probabilities)
        return crossed, soft_rows(cls, scope, target, probabilities)

    @classmethod
    def each(cls, scope: Scope, crossed: Value, own: Value) -> Value:
        return scope.emit("subtract", crossed, own)
