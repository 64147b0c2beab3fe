"""Adam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.bounded import BELOW_ONE, NOT_NEGATIVE
from noeira.ir.layouts import Range
from noeira.ir.ops.flat_update import FEW_RANGES, MANY_RANGES, QUARTERS
from noeira.ir.ops.optimizer import Optimizer, OptimizerAttrs, OptimizerOptions
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call
from noeira.ir.states import FIRST_MOMENT, SECOND_MOMENT


@dataclass(frozen=True)
class AdamOptions(OptimizerOptions):
    """What Adam can be told. decoupled: weight decay acts on the parameters (AdamW), not on the
    gradient.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "beta1": BELOW_ONE,
        "beta2": BELOW_ONE,
        "eps": NOT_NEGATIVE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class AdamAttrs(OptimizerAttrs, AdamOptions):
    """The options, and what parameters have of their own."""


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014), and AdamW (Loshchilov and Hutter 2017) with `decoupled`.

    t = step + 1; decoupled: p -= lr·weight_decay·p, else g += weight_decay·p;
    m' = β₁·m + (1 - β₁)·g; v' = β₂·v + (1 - β₂)·g²; p' = p - lr/(1 - β₁ᵗ) · m' / (√v'/√(1 - β₂ᵗ) +
    eps). p [N], g [N], lr [], step i64[], ok bool[], m [N], v [N] -> p' [N], m' [N], v' [N]
    """

    name, Attrs = "adam", AdamAttrs
    moments, positive = (FIRST_MOMENT, SECOND_MOMENT), (SECOND_MOMENT,)

    def update(
        self, attrs: AdamAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr, v: Expr
    ) -> dict[str, Expr]:
        if attrs.decoupled:
            p = p - lr * attrs.weight_decay * p
        else:
            g = g + attrs.weight_decay * p
        m = attrs.beta1 * m + (1 - attrs.beta1) * g
        v = attrs.beta2 * v + (1 - attrs.beta2) * g * g
        rate = lr / (1 - call("pow", attrs.beta1, t))
        root = 1 / call("sqrt", 1 - call("pow", attrs.beta2, t))
        return {"p": p - rate * m / (call("sqrt", v) * root + attrs.eps), "m": m, "v": v}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (
            *super().samples(),
            self.sample(257, beta1=0.8, beta2=0.99, eps=1e-6),
            self.sample(100, weight_decay=0.1),
            self.sample(257, weight_decay=0.1, decoupled=True, ranges=table),
            self.sample(257, factors=(11,), weight_decay=0.1, ranges=self.table(MANY_RANGES)),
            self.sample(257, factors=(4,), ranges=tuple(Range(*span) for span in QUARTERS)),
        )
