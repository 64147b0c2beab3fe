"""Losses of networks of several outputs."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.slots import modules
from noeira.nn.losses.base import Loss

__all__ = ["Losses"]


class Losses(Loss):
    """`Losses[A, B, …]`: the sum of a loss for each output of a network, in order.

    The targets are those of A, then those of B, …
    """

    LOSSES = modules("loss")
    placeholders: ClassVar[dict[str, str]] = {"LOSSES": "A, B, …"}

    @classmethod
    def check(cls) -> None:
        for part in cls.LOSSES:
            if part.keeps_batch():
                raise CompositionError(
                    f"{cls!r}: {part!r} gives {part.shapes().outputs[0]} for each sample, and "
                    "losses are added as numbers: leave reduction='none' out"
                )
        super().check()

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return tuple((str(index), part) for index, part in enumerate(cls.LOSSES))

    @classmethod
    def compose(cls) -> Signature:
        parts = [part.shapes().apart(index) for index, part in enumerate(cls.LOSSES)]
        outputs = [part.inputs[0] for part in parts]
        targets = [pattern for part in parts for pattern in part.inputs[1:]]
        rules = tuple(rule for part in parts for rule in part.where)
        return Signature((*outputs, *targets), (Pattern(()),), rules).tidy()

    @classmethod
    def wants(cls, net: type[Module], outputs: Sequence[Pattern]) -> tuple[Pattern, ...]:
        count = len(outputs)
        if len(cls.LOSSES) != count:
            raise CompositionError(
                f"{net!r} gives {count} output{'s' * (count > 1)}, {listed(tuple(outputs))}; "
                f"{cls!r} are {len(cls.LOSSES)} losses, and there is to be one for each"
            )
        return super().wants(net, outputs)

    @classmethod
    def trace(cls, scope: Scope, *given: Value) -> Value:
        children = cls.inside
        outputs, targets = given[: len(children)], iter(given[len(children) :])
        losses = list[Value]()
        for output, (name, part) in zip(outputs, children, strict=True):
            own = itertools.islice(targets, len(part.shapes().inputs) - 1)
            losses.append(scope.child(name, part).run(output, *own))
        return functools.reduce(operator.add, losses)
