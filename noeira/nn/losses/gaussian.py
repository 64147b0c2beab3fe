"""Losses of normal distributions with a variance for each axis, given by mean and log-variance."""

from __future__ import annotations

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import choice, flag, number
from noeira.nn.losses.base import ElementwiseLoss

__all__ = ["GaussianKL", "GaussianNLL", "StandardNormalKL"]


class GaussianNLL(ElementwiseLoss):
    """mean over all elements of ((m − y)² · exp(−v) + v) / 2, m the mean, y the target, v the
    log-variance held between low and high, as PyTorch's GaussianNLLLoss of the variance exp v.

    (*, 2*D), (*, D) -> (): the prediction is [m, v] in its last axis. `separate`: the network gives
    m and v as two outputs: (*), (*), (*) -> (). Beyond the bounds v has no gradient, and what
    the network gives there is not held: they are wide, for data of about unit size; `high=-2` keeps
    a world model sure of itself. `full` adds log(2π) / 2. `reduction='batchmean'`: the sum over the
    number of samples.
    """

    LOW = number(-10.0)
    HIGH = number(10.0)
    FULL = flag(False)
    SEPARATE = flag(False)
    REDUCTION = choice("mean", "batchmean", "sum", "none")
    signature = "(*, 2*D), (*, D) -> ()"
    unreduced = "(*, D)"

    @classmethod
    def check(cls) -> None:
        if cls.LOW > cls.HIGH:
            raise CompositionError(
                f"{cls!r}: low is {cls.LOW:g} and high {cls.HIGH:g}; low is the lower bound"
            )
        super().check()

    @classmethod
    def predictions(cls) -> int:
        return 2 if cls.SEPARATE else 1

    @classmethod
    def patterns(cls) -> tuple[str, str]:
        if cls.SEPARATE:
            return "(*), (*), (*) -> ()", "(*)"
        return super().patterns()

    @classmethod
    def operands(cls, scope: Scope, *given: Value) -> tuple[Value, ...]:
        return given if cls.SEPARATE else (*halves(scope, given[0]), given[1])

    @classmethod
    def each(cls, scope: Scope, mean: Value, log_variance: Value, target: Value) -> Value:
        attrs = {"low": cls.LOW, "high": cls.HIGH, "full": cls.FULL}
        return scope.emit("gaussian_nll", mean, log_variance, target, **attrs)


class StandardNormalKL(ElementwiseLoss):
    """mean over samples of Σ (m² + exp v − 1 − v) / 2, the divergence KL(N(m, exp v) ‖ N(0, 1))
    (Kingma and Welling 2013, appendix B); no target.

    (*, 2*D) -> (): the prediction is [m, v] in its last axis. `separate`: the network gives m and v
    as two outputs: (*), (*) -> ().
    """

    SEPARATE = flag(False)
    REDUCTION = choice("batchmean", "mean", "sum", "none")
    signature = "(*, 2*D) -> ()"
    unreduced = "(*, D)"

    @classmethod
    def predictions(cls) -> int:
        return 2 if cls.SEPARATE else 1

    @classmethod
    def patterns(cls) -> tuple[str, str]:
        return ("(*), (*) -> ()", "(*)") if cls.SEPARATE else super().patterns()

    @classmethod
    def operands(cls, scope: Scope, *given: Value) -> tuple[Value, ...]:
        return given if cls.SEPARATE else halves(scope, given[0])

    @classmethod
    def each(cls, scope: Scope, mean: Value, log_variance: Value) -> Value:
        return scope.emit("standard_normal_kl", mean, log_variance)


class GaussianKL(ElementwiseLoss):
    """mean over samples of Σ (exp(v − w) − 1 − (v − w) + (m − n)² · exp(−w)) / 2, the divergence
    KL(N(m, exp v) ‖ N(n, exp w)).

    (*, 2*D), (*, 2*D) -> (): the prediction is [m, v] in its last axis, the target [n, w].
    """

    REDUCTION = choice("batchmean", "mean", "sum", "none")
    signature = "(*, 2*D), (*, 2*D) -> ()"
    unreduced = "(*, D)"

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        return (*halves(scope, prediction), *halves(scope, target))

    @classmethod
    def each(
        cls, scope: Scope, mean: Value, log_variance: Value, other: Value, other_variance: Value
    ) -> Value:
        return scope.emit("gaussian_kl", mean, log_variance, other, other_variance)


def halves(scope: Scope, value: Value) -> tuple[Value, Value]:
    """The two halves of the last axis."""
    width = value.type.shape[-1] // 2
    first, second = (
        scope.emit("slice", value, starts=(start,), lengths=(width,)) for start in (0, width)
    )
    return first, second
