"""What losses and metrics take: every output of the network, then the targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from noeira.errors import CompositionError, OptionError, ShapeError
from noeira.ir.builder import Builder
from noeira.ir.graph import Value
from noeira.ir.states import TARGET, numbered
from noeira.ir.types import TensorType
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, listed


class Criterion(Module):
    """The parent of losses and metrics: modules of every output of a network, then of targets."""

    @classmethod
    def wants(cls, net: type[Module], outputs: Sequence[Pattern]) -> tuple[Pattern, ...]:
        """The targets that it takes after the network's outputs.

        Raises CompositionError, or ShapeError if it does not take them.
        """
        takes, count = cls.shapes().inputs, len(outputs)
        try:
            return cls.solve(*outputs, *[None] * (len(takes) - count)).inputs[count:]
        except ShapeError:
            if count == 1:
                raise
            raise CompositionError(
                f"{net!r} gives {count} outputs, {listed(tuple(outputs))}, and {cls!r} takes "
                f"{listed(takes)}: a {cls.role} takes every output, then the targets"
                f"{cls.advice()}"
            ) from None

    @classmethod
    def advice(cls) -> str:
        """What follows the message for a network of several outputs."""
        return ""


def target_patterns(
    net: type[Module], outputs: Sequence[Pattern], kinds: Sequence[type[Criterion]]
) -> tuple[Pattern, ...]:
    """One sample of each target, as the first of the losses and metrics wants them; the others must
    want the first of these, so that a metric need know nothing of the weights of a loss.

    Raises CompositionError, or ShapeError if one does not take the network's outputs.
    """
    wanted = [kind.wants(net, outputs) for kind in kinds]
    for kind, patterns in zip(kinds, wanted, strict=True):
        if patterns != wanted[0][: len(patterns)]:
            raise CompositionError(
                f"{kinds[0]!r} takes targets {listed(wanted[0]) or 'none'} and {kind!r} takes "
                f"{listed(patterns) or 'none'}; one target cannot be both"
            )
    return wanted[0] if wanted else ()


def declare_targets(
    builder: Builder, patterns: Sequence[Pattern], batch: int, dtype: str
) -> list[Value]:
    """Declare the targets as inputs: %target, or %target0, %target1, … if there are several."""
    return [
        builder.input(name, typed(pattern, batch, dtype), pattern.limit)
        for name, pattern in zip(numbered(TARGET, len(patterns)), patterns, strict=True)
    ]


def typed(pattern: Pattern, batch: int, dtype: str) -> TensorType:
    """The type of a batch of samples."""
    return TensorType(pattern.dtype or dtype, (batch, *pattern.shape))


def run_metric(
    scope: Scope, index: int, kind: type[Criterion], given: Sequence[Value]
) -> list[Value]:
    """Trace metric `index` on the outputs and as many targets as it takes; gives its sum and its
    count.

    Raises CompositionError if it does not give these two.
    """
    taken = given[: len(kind.shapes().inputs)]
    made = replace(scope, module=kind, path=f"metric.{index}").run(*taken)
    if not isinstance(made, tuple) or len(made) != 2:
        raise CompositionError(
            f"{kind!r} gives {listed(kind.shapes().outputs)}: a metric gives two numbers, a sum "
            "and a count, such as those of the rows that are right and of all rows"
        )
    return list(made)


def check_metrics(
    net: type[Module],
    outputs: Sequence[Pattern],
    loss: type[Criterion] | None,
    metrics: Sequence[type[Criterion]],
    dtype: str,
) -> None:
    """Trace the metrics alone. Raises CompositionError, ShapeError or DtypeError if one of them
    does not go with the network, or with the targets of its loss.
    """
    kinds = metrics if loss is None else (loss, *metrics)
    targets = target_patterns(net, outputs, kinds)
    builder = Builder("metrics")
    names = numbered("output", len(outputs))
    given = [
        builder.input(n, typed(p, 1, dtype), p.limit) for n, p in zip(names, outputs, strict=True)
    ]
    given += declare_targets(builder, targets, 1, dtype)
    scope = Scope(builder, net, {}, phase="eval", dtype=dtype)
    for index, kind in enumerate(metrics):
        run_metric(scope, index, kind, given)


def criterion_type(value: Any, parent: type[Criterion], example: str) -> Any:
    """A loss or metric type from its type or an instance; `parent`: that of its role.

    Raises OptionError that says how one is given.
    """
    role, found = parent.role, type(value) if isinstance(value, Module) else value
    if isinstance(found, str):
        raise OptionError(f"{role}: write the type, such as {example}, not the text {found!r}")
    if not isinstance(found, type) or not issubclass(found, Module):
        raise OptionError(f"{role} must be a {role} type such as {example}, not {value!r}")
    if found is parent or not issubclass(found, parent):
        known = ", ".join(sorted(child.__name__ for child in leaves(parent)))
        raise OptionError(
            f"{role} must be a {role} type such as {example}; {found!r} is none; there are {known}"
        )
    found.need_parameters(role)
    return found


def leaves(parent: type[Module]) -> Iterator[type[Module]]:
    """The types of noeira's own below one, whatever else a program has defined, without those that
    are parents themselves.
    """
    for child in parent.__subclasses__():
        if child.__module__.startswith("noeira.") and not child.is_made:
            below = list(leaves(child))
            yield from below or [child]
