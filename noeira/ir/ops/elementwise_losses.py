"""What losses compute of each element: scalar expressions that stay finite for large operands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noeira.ir import graph
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, f32, i32
from noeira.ir.scalar import Expr, call, lift, select, square, var

x, target = var("x"), var("target")
# Operands of losses have one shape: what repeats them is tried with the ops of arithmetic.
SHAPES = ((1,), (4, 33), (2, 3, 17))


def tried(kinds: Sequence[str], shapes: Any = SHAPES, **attrs: Any) -> tuple[Sample, ...]:
    """Samples of floats drawn as said, of each shape."""
    return tuple(Sample(tuple(Draw(f32(*s), kind) for kind in kinds), attrs) for s in shapes)


class OfElements(Elementwise):
    """The parent of these ops."""

    def samples(self) -> tuple[Sample, ...]:
        return tried(("normal",) * len(self.operands))


class PredictionAndTarget(OfElements):
    """The parent of losses of a prediction x and a target."""

    operands = ("x", "target")


class SquaredError(PredictionAndTarget):
    """(x - target)²"""

    name = "squared_error"

    def expression(self, attrs: Any) -> Expr:
        return square(x - target)


class AbsoluteError(PredictionAndTarget):
    """|x - target|; its slope is 0 where they are equal, as in PyTorch"""

    name = "absolute_error"

    def expression(self, attrs: Any) -> Expr:
        return call("abs", x - target)


@dataclass(frozen=True)
class HuberAttrs(graph.Attrs):
    """delta: the error up to which it is quadratic."""

    delta: float = 1.0


class Huber(PredictionAndTarget):
    """e² / 2 up to |e| = delta, beyond it delta · (|e| - delta / 2), e = x - target (Huber 1964)"""

    name, Attrs = "huber", HuberAttrs

    def expression(self, attrs: HuberAttrs) -> Expr:
        size = call("abs", x - target)
        far = (size - 0.5 * attrs.delta) * attrs.delta
        return select(call("le", size, attrs.delta), square(x - target) * 0.5, far)


@dataclass(frozen=True)
class SmoothL1Attrs(graph.Attrs):
    """beta: the error up to which it is quadratic."""

    beta: float = 1.0


class SmoothL1(PredictionAndTarget):
    """e² / (2 beta) below |e| = beta, else |e| - beta / 2, e = x - target (Girshick 2015)"""

    name, Attrs = "smooth_l1", SmoothL1Attrs

    def expression(self, attrs: SmoothL1Attrs) -> Expr:
        size = call("abs", x - target)
        if not attrs.beta:
            return size
        near = square(x - target) * (0.5 / attrs.beta)
        return select(call("lt", size, attrs.beta), near, size - 0.5 * attrs.beta)


@dataclass(frozen=True)
class PositiveWeightAttrs(graph.Attrs):
    """positive_weight: a factor on what positive targets cost."""

    positive_weight: float = 1.0


class BinaryCrossEntropy(PredictionAndTarget):
    """-w·t·log σ(x) - (1 - t)·log(1 - σ(x)) of a logit x and a probability t, w the
    positive_weight; as (1 - t)·x + (1 + (w - 1)·t)·softplus(-x)
    """

    name, Attrs = "binary_cross_entropy", PositiveWeightAttrs

    def expression(self, attrs: PositiveWeightAttrs) -> Expr:
        weight = target * (attrs.positive_weight - 1.0) + 1.0
        return (1.0 - target) * x + weight * call("softplus", -x)


@dataclass(frozen=True)
class BinaryFocalAttrs(graph.Attrs):
    """gamma: how much less what is found already counts; alpha: the share of positive targets."""

    gamma: float = 2.0
    alpha: float = 0.25


class BinaryFocal(PredictionAndTarget):
    """-alpha·t·(1 - p)^gamma·log p - (1 - alpha)·(1 - t)·p^gamma·log(1 - p), p = σ(x) (Lin et al.
    2017)
    """

    name, Attrs = "binary_focal", BinaryFocalAttrs

    def expression(self, attrs: BinaryFocalAttrs) -> Expr:
        # log(1 - p) = -softplus(x) and log p = -softplus(-x).
        above, below = call("softplus", x), call("softplus", -x)
        positive = call("exp", above * -attrs.gamma) * below
        negative = call("exp", below * -attrs.gamma) * above
        return target * attrs.alpha * positive + (1.0 - target) * (1 - attrs.alpha) * negative


@dataclass(frozen=True)
class FocalAttrs(graph.Attrs):
    """gamma: how much less what is found already counts; alpha: a factor."""

    gamma: float = 2.0
    alpha: float = 1.0


class Focal(OfElements):
    """alpha · (1 - p)^gamma · x of a cross-entropy x = -log p; 0 where that is not positive"""

    name, Attrs = "focal", FocalAttrs

    def expression(self, attrs: FocalAttrs) -> Expr:
        if not attrs.gamma:
            return x * attrs.alpha
        missed = call("pow", -call("expm1", -x), attrs.gamma)
        return select(call("le", x, 0), 0, missed * x * attrs.alpha)

    def samples(self) -> tuple[Sample, ...]:
        others = (tried(("positive",), ((3, 19),), gamma=g, alpha=0.5) for g in (0.0, 0.5))
        return (*tried(("positive",)), *itertools.chain(*others))


@dataclass(frozen=True)
class KLAttrs(graph.Attrs):
    """log_target: whether the target is the logarithm of a probability."""

    log_target: bool = False


class KLDivergence(PredictionAndTarget):
    """t · (log t - x) of a log-probability x, t the target or its exponential; 0 where t is 0"""

    name, Attrs = "kl_divergence", KLAttrs

    def expression(self, attrs: KLAttrs) -> Expr:
        if attrs.log_target:
            return call("exp", target) * (target - x)
        return select(call("gt", target, 0), target * (call("log", target) - x), 0)

    def samples(self) -> tuple[Sample, ...]:
        of_logarithms = tried(("normal", "normal"), ((4, 33),), log_target=True)
        return (*tried(("normal", "positive")), *of_logarithms)


class NegativeEntropy(OfElements):
    """x · log x of a probability; 0 where that is 0"""

    name = "negative_entropy"

    def expression(self, attrs: Any) -> Expr:
        return select(call("gt", x, 0), x * call("log", x), 0)

    def samples(self) -> tuple[Sample, ...]:
        return tried(("positive",))


@dataclass(frozen=True)
class GaussianAttrs(graph.Attrs):
    """low, high: the bounds of the log-variance. full: with the constant log(2π) / 2."""

    low: float = -10.0
    high: float = -2.0
    full: bool = False


class GaussianNLL(OfElements):
    """((x - target)² · exp(-v) + v) / 2, v the log-variance between the bounds: minus the log of a
    normal density without its constant; beyond the bounds the log-variance has slope 0
    """

    name, operands, Attrs = "gaussian_nll", ("x", "log_variance", "target"), GaussianAttrs

    def expression(self, attrs: GaussianAttrs) -> Expr:
        v = call("min", call("max", var("log_variance"), attrs.low), attrs.high)
        constant = math.log(2 * math.pi) if attrs.full else 0.0
        return (square(x - target) * call("exp", -v) + v + constant) * 0.5

    def samples(self) -> tuple[Sample, ...]:
        wide = tried(("normal",) * 3, ((4, 33),), low=-1.5, high=2.5, full=True)
        return (*super().samples(), *wide)


class StandardNormalKL(OfElements):
    """(mean² + exp(v) - 1 - v) / 2, v the log-variance: the divergence of a normal distribution
    from the standard one
    """

    name, operands = "standard_normal_kl", ("mean", "log_variance")

    def expression(self, attrs: Any) -> Expr:
        v = var("log_variance")
        return (square(var("mean")) + call("expm1", v) - v) * 0.5


class GaussianKL(OfElements):
    """(exp(v₀ - v₁) - 1 - (v₀ - v₁) + (m₀ - m₁)² · exp(-v₁)) / 2: the divergence of the normal
    distribution m₀ of log-variance v₀ from m₁ of v₁
    """

    name, operands = "gaussian_kl", ("mean", "log_variance", "other_mean", "other_log_variance")

    def expression(self, attrs: Any) -> Expr:
        other = var("other_log_variance")
        wider = var("log_variance") - other
        apart = square(var("mean") - var("other_mean")) * call("exp", -other)
        return (call("expm1", wider) - wider + apart) * 0.5


class Ratio(OfElements):
    """x / count; 0 where the count is 0"""

    name, operands = "ratio", ("x", "count")

    def expression(self, attrs: Any) -> Expr:
        return select(call("eq", var("count"), 0), 0, x / var("count"))

    def samples(self) -> tuple[Sample, ...]:
        return tried(("normal", "positive"), ((), (4, 33)))


@dataclass(frozen=True)
class IgnoredAttrs(graph.Attrs):
    """ignored: the id that does not count."""

    ignored: int = 0


class DropId(OfElements):
    """x where the id is another than the ignored one, else 0"""

    name, operands, numbers, Attrs = "drop_id", ("x", "ids"), ("ids",), IgnoredAttrs

    def expression(self, attrs: IgnoredAttrs) -> Expr:
        return select(call("eq", var("ids"), attrs.ignored), 0, x)

    def samples(self) -> tuple[Sample, ...]:
        shapes, attrs = (((3, 33), (3, 33)), ((), (4, 5))), {"ignored": 2}
        return tuple(Sample((Draw(f32(*a)), Draw(i32(*b), "index", 4)), attrs) for a, b in shapes)


class BinaryHit(PredictionAndTarget):
    """1 where the logit x is positive just where the target is above 1/2, else 0, and where x is
    no number
    """

    name = "binary_hit"

    def expression(self, attrs: Any) -> Expr:
        of_positive = select(call("gt", x, 0), 1, 0)
        of_negative = select(call("le", x, 0), 1, 0)
        return select(call("gt", target, 0.5), of_positive, of_negative)

    def slope(self, attrs: Any, index: int) -> Expr:
        return lift(0)
