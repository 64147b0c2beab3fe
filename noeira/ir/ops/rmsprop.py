"""RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.bounded import BELOW_ONE, NOT_NEGATIVE
from noeira.ir.ops.flat_update import FEW_RANGES
from noeira.ir.ops.optimizer import Optimizer, OptimizerAttrs, OptimizerOptions
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call
from noeira.ir.states import FIRST_MOMENT, SECOND_MOMENT

# The average of gradients; `m` is that of the steps.
MEAN = "mean"


@dataclass(frozen=True)
class RMSpropOptions(OptimizerOptions):
    """What RMSprop can be told. centered: gradients are divided by their standard deviation."""

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "alpha": BELOW_ONE,
        "eps": NOT_NEGATIVE,
        "momentum": BELOW_ONE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class RMSpropAttrs(OptimizerAttrs, RMSpropOptions):
    """The options, and what parameters have of their own."""


class RMSprop(Optimizer):
    """RMSprop as in PyTorch (Hinton 2012; centered: Graves 2013).

    g' = g + weight_decay·p; v' = α·v + (1 - α)·g'²; centered: mean' = α·mean + (1 - α)·g', and v' -
    mean'², at least 0, stands for v' in what follows; u = g' / (√v' + eps); with momentum: m' =
    momentum·m + u, which stands for u; p' = p - lr·u. p [N], g [N], lr [], step i64[], ok bool[], v
    [N] (, mean [N]) (, m [N]) (, clip) -> p' [N], v' [N] (, mean' [N]) (, m' [N])
    """

    name, Attrs = "rmsprop", RMSpropAttrs
    moments, positive = (SECOND_MOMENT, MEAN, FIRST_MOMENT), (SECOND_MOMENT,)

    def kept(self, attrs: RMSpropAttrs) -> tuple[str, ...]:
        wanted = {MEAN: attrs.centered, FIRST_MOMENT: bool(attrs.momentum)}
        return tuple(name for name in self.moments if wanted.get(name, True))

    def update(
        self,
        attrs: RMSpropAttrs,
        p: Expr,
        g: Expr,
        lr: Expr,
        t: Expr,
        v: Expr,
        mean: Expr | None = None,
        m: Expr | None = None,
    ) -> dict[str, Expr]:
        g = g + attrs.weight_decay * p
        v = attrs.alpha * v + (1 - attrs.alpha) * g * g
        kept, variance = {SECOND_MOMENT: v}, v
        if mean is not None:
            kept[MEAN] = mean = attrs.alpha * mean + (1 - attrs.alpha) * g
            variance = call("max", v - mean * mean, 0)
        change = g / (call("sqrt", variance) + attrs.eps)
        if m is not None:
            kept[FIRST_MOMENT] = change = attrs.momentum * m + change
        return {"p": p - lr * change, **kept}

    def samples(self) -> tuple[Sample, ...]:
        return (
            *super().samples(),
            self.sample(257, weight_decay=0.1, momentum=0.9, ranges=self.table(FEW_RANGES)),
            self.sample(100, centered=True, eps=0.1),
            self.sample(257, centered=True, eps=0.1, momentum=0.9, alpha=0.9),
        )
