"""Losses of networks of several outputs."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import ClassVar, cast

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.slots import modules
from noeira.nn.losses.base import Loss

__all__ = ["Losses"]


class Losses(Loss):
    """`Losses[A, B, …]`: the sum of a loss for each output of a network, in order; a loss of two
    outputs, such as `GaussianNLL.of(separate=True)`, takes the next two.

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
    def losses(cls) -> tuple[type[Loss], ...]:
        """The losses, in order."""
        return cast("tuple[type[Loss], ...]", cls.LOSSES)

    @classmethod
    def predictions(cls) -> int:
        return sum(part.predictions() for part in cls.losses())

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return tuple((str(index), part) for index, part in enumerate(cls.LOSSES))

    @classmethod
    def compose(cls) -> Signature:
        parts = [part.shapes().apart(index) for index, part in enumerate(cls.LOSSES)]
        counts = [part.predictions() for part in cls.losses()]
        pairs = list(zip(parts, counts, strict=True))
        outputs = [pattern for part, count in pairs for pattern in part.inputs[:count]]
        targets = [pattern for part, count in pairs for pattern in part.inputs[count:]]
        rules = tuple(rule for part in parts for rule in part.where)
        return Signature((*outputs, *targets), (Pattern(()),), rules).tidy()

    @classmethod
    def wants(cls, net: type[Module], outputs: Sequence[Pattern]) -> tuple[Pattern, ...]:
        count, taken = len(outputs), cls.predictions()
        if taken != count:
            number = len(cls.LOSSES)
            takes = "" if taken == number else f", which take {taken} outputs"
            raise CompositionError(
                f"{net!r} gives {count} output{'s' * (count > 1)}, {listed(tuple(outputs))}; "
                f"{cls!r} are {number} losses{takes}, and there is to be one for each"
            )
        return super().wants(net, outputs)

    @classmethod
    def trace(cls, scope: Scope, *given: Value) -> Value:
        outputs, targets = iter(given[: cls.predictions()]), iter(given[cls.predictions() :])
        losses = list[Value]()
        for (name, _), part in zip(cls.inside, cls.losses(), strict=True):
            own = itertools.islice(outputs, part.predictions())
            rest = itertools.islice(targets, len(part.shapes().inputs) - part.predictions())
            losses.append(scope.child(name, part).run(*own, *rest))
        return functools.reduce(operator.add, losses)
