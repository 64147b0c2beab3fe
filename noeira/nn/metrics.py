"""Metrics: modules of the network's outputs and targets that give a sum and a count, so that parts
of a data set add up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

from noeira.errors import OptionError
from noeira.ir.graph import Value
from noeira.nn.core.criteria import Criterion, criterion_type
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import size

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "Perplexity",
    "TopK",
]


# In the name of a class: before a capital behind a small letter, and behind others where a small
# one follows: Mean|Absolute|Error, BCE|Hits, F1|Score.
WORD_BEGINS = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])"


class Metric(Criterion):
    """The parent of the metrics; the value of one is made of the mean, sum / count, by `value`.

    It reads as many targets as its signature has, the first of those that the loss takes.

    share: whether that is a part of a whole, from 0 to 1, which is printed in per cent; a metric
    that says nothing of it is printed as the number that it is.
    """

    role = "metric"
    share: ClassVar[bool] = False

    @classmethod
    def value(cls, mean: float) -> float:
        """The metric, given sum / count over all the data."""
        return mean


# How a metric is given: Accuracy, TopK[5], or an instance of one.
MetricLike: TypeAlias = "Metric | type[Metric]"


class TopK(Metric):
    """`TopK[K]`: how many rows have their class id among the K largest logits, and their number.

    (*, C), (*: i32 < C) -> (), ().
    """

    K = size()
    signature = "(*, C), (*: i32 < C) -> (), ()"
    share = True

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        return scope.emit("top_k", prediction, target, k=cls.K)


class Accuracy(Metric):
    """How many rows have their largest logit at their class id, and the number of rows.

    (*, C), (*: i32 < C) -> (), ().
    """

    signature = "(*, C), (*: i32 < C) -> (), ()"
    share = True

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        return scope.emit("top_k", prediction, target, k=1)


class Perplexity(Metric):
    """exp(mean over rows of logsumexp(x) − x_y) of logits x and class ids y.

    (*, C), (*: i32 < C) -> (), (). `ignored`: an id whose rows do not count, as in
    `SequenceCrossEntropy`.
    """

    IGNORED = size(None, least=0)
    signature = "(*, C), (*: i32 < C) -> (), ()"

    @classmethod
    def value(cls, mean: float) -> float:
        try:
            return math.exp(mean)
        except OverflowError:
            return math.inf

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        ignored = cls.IGNORED
        kind = "sum" if ignored is None else "none"
        found, _ = scope.emit("cross_entropy", prediction, target, reduction=kind)
        if ignored is None:
            return found, rows_of(scope, target)
        one = scope.emit("constant", value=1.0, dtype=found.type.dtype)
        pair = (counted(scope, "drop_id", x, target, ignored=ignored) for x in (found, one))
        return next(pair), next(pair)


class ElementwiseMetric(Metric):
    """The parent of metrics that are the mean of an element-wise op of predictions and targets."""

    signature = "(*), (*) -> (), ()"
    op: ClassVar[str]

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        return counted(scope, cls.op, prediction, target), rows_of(scope, target)


class MeanAbsoluteError(ElementwiseMetric):
    """mean over all elements of |prediction − target|: (*), (*) -> (), ()."""

    op = "absolute_error"


class MeanSquaredError(ElementwiseMetric):
    """mean over all elements of (prediction − target)²: (*), (*) -> (), ()."""

    op = "squared_error"


class BinaryAccuracy(ElementwiseMetric):
    """The share of elements whose logit is positive just where the target is above 1/2, as that of
    `BCEWithLogits` is: (*), (*) -> (), ().
    """

    op, share = "binary_hit", True


def counted(scope: Scope, op: str, *operands: Value, **attrs: Any) -> Value:
    """The sum of what an element-wise op gives, in its kernel."""
    here = scope.fused()
    return here.emit("sum", here.emit(op, *operands, **attrs))


def rows_of(scope: Scope, target: Value) -> Value:
    """The number of a target's elements."""
    return scope.emit("constant", value=float(target.type.size), dtype=scope.dtype)


def metric_type(value: Any) -> type[Metric]:
    """The type of what a user gave as a metric.

    Raises OptionError that says how one is given.
    """
    return criterion_type(value, Metric, "Accuracy")


def metric_types(value: Any) -> tuple[type[Metric], ...]:
    """The types of what a user gave as the metrics, a list, each called otherwise than the others.

    Raises OptionError that says how it is written.
    """
    if isinstance(value, (type, Metric)):
        raise OptionError(f"metrics is a list: write [{metric_type(value)!r}]")
    if isinstance(value, str) or not isinstance(value, Iterable):
        kind = "the text " if isinstance(value, str) else ""
        raise OptionError(
            f"metrics is a list of metric types such as [Accuracy], not {kind}{value!r}"
        )
    found = tuple(map(metric_type, value))
    names = [metric_name(kind) for kind in found]
    for kind, name in zip(found, names, strict=True):
        if names.count(name) > 1:
            raise OptionError(
                f"metrics has two that evaluation calls {name}: leave out one {kind!r}, or give "
                "its class another name"
            )
    return found


def metric_name(kind: type[Metric]) -> str:
    """What evaluation calls a metric: `accuracy`, `mean_absolute_error`, `top_k[5]`."""
    return re.sub(WORD_BEGINS, "_", repr(kind)).lower()
