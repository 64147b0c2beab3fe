"""Metrics: modules of the network's outputs and targets that give a sum and a count, so that parts
of a data set add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

from noeira.errors import OptionError
from noeira.ir.graph import Value
from noeira.nn.core.criteria import Criterion
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import size
from noeira.nn.loss import role_type

__all__ = ["Accuracy", "Metric", "TopK"]


class Metric(Criterion):
    """The parent of the metrics; the value of one is sum / count.

    share: whether that is a part of a whole, from 0 to 1, which is printed in per cent; a metric
    that says nothing of it is printed as the number that it is.
    """

    role = "metric"
    share: ClassVar[bool] = False


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


def metric_type(value: Any) -> type[Metric]:
    """The type of what a user gave as a metric.

    Raises OptionError that says how one is given.
    """
    return role_type(value, Metric, "metric", "Accuracy")


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
    """What evaluation calls a metric: `accuracy`, `topk[5]`."""
    return repr(kind).lower()
