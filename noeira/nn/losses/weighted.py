"""Losses with a weight for each sample."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, parse_signature
from noeira.nn.core.slots import choice, module
from noeira.nn.losses.base import ElementwiseLoss, Loss

__all__ = ["Weighted"]


class Weighted(Loss):
    """`Weighted[L]`: Σ w·l / Σ w over the values l of the loss L, each with the weight w of its
    sample.

    The targets are those of L, then the weights, one number a sample. Of a sample of several values
    each has its weight. If all weights are 0, so are the loss and its gradients. `reduction='sum'`
    is Σ w·l, `'none'` w·l.
    """

    LOSS: Any = module("loss")
    REDUCTION = choice("mean", "sum", "none")
    placeholders: ClassVar[dict[str, str]] = {"LOSS": "L"}

    @classmethod
    def check(cls) -> None:
        inner = cls.LOSS
        if not issubclass(inner, ElementwiseLoss):
            raise CompositionError(
                f"{cls!r}: {inner!r} gives one number, and weights need a value for each sample: "
                "derive it from ElementwiseLoss"
            )
        if inner.REDUCTION in ("sum", "none"):
            raise CompositionError(
                f"{cls!r}: weights come before the reduction: leave it out inside, and write "
                f"Weighted.of(…, reduction={inner.REDUCTION!r})"
            )
        super().check()

    @classmethod
    def keeps_batch(cls) -> bool:
        return cls.REDUCTION == "none"

    @classmethod
    def predictions(cls) -> int:
        return cls.LOSS.predictions()

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.LOSS),)

    @classmethod
    def compose(cls) -> Signature:
        inner, values = cls.LOSS.shapes(), cls.LOSS.patterns()[1]
        outputs = inner.outputs
        if cls.keeps_batch():
            parsed = parse_signature(f"() -> {values}", cls.__name__)
            outputs = parsed.filled(cls.LOSS.sizes).outputs
        return Signature((*inner.inputs, Pattern(())), outputs, inner.where)

    @classmethod
    def trace(cls, scope: Scope, *given: Value) -> Value:
        *own, weights = given
        part: type[ElementwiseLoss] = cls.LOSS
        inside = scope.child("", part)

        def finish(here: Scope, each: Value) -> Value:
            if cls.REDUCTION == "none":
                shape = (*weights.type.shape, *(1 for _ in each.type.shape[1:]))
                return here.emit("multiply", each, scope.emit("reshape", weights, shape=shape))
            total = here.emit("sum", weighed(here, each, weights))
            if cls.REDUCTION == "sum":
                return total
            beside, values = scope.fused(), each.type.size // weights.type.size
            counts = part.counts(beside, *own)
            if counts is not None:
                count = beside.emit("sum", weighed(beside, counts, weights))
            else:
                all_count = part.REDUCTION == "mean"
                count = beside.emit("sum", weights, scale=float(values) if all_count else 1.0)
            return scope.emit("ratio", total, count)

        return part.fused(inside, tuple(own), finish)


def weighed(scope: Scope, each: Value, weights: Value) -> Value:
    """For each sample its weight times the sum of its values."""
    axes = tuple(range(1, len(each.type.shape)))
    sums = scope.emit("sum", each, axes=axes) if axes else each
    return scope.emit("multiply", sums, weights)
