"""Lion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.bounded import BELOW_ONE, NOT_NEGATIVE
from noeira.ir.ops.flat_update import FEW_RANGES
from noeira.ir.ops.optimizer import Optimizer, OptimizerAttrs, OptimizerOptions
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call
from noeira.ir.states import FIRST_MOMENT


@dataclass(frozen=True)
class LionOptions(OptimizerOptions):
    """What Lion can be told. beta1: how much of the average there is in a step; beta2: how much of
    it stays. Weight decay acts on the parameters.
    """

    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "beta1": BELOW_ONE,
        "beta2": BELOW_ONE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class LionAttrs(OptimizerAttrs, LionOptions):
    """The options, and what parameters have of their own."""


class Lion(Optimizer):
    """Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2).

    p' = p - lr·(sign(β₁·m + (1 - β₁)·g) + weight_decay·p); m' = β₂·m + (1 - β₂)·g. p [N], g [N], lr
    [], step i64[], ok bool[], m [N] (, clip) -> p' [N], m' [N]
    """

    name, Attrs, moments = "lion", LionAttrs, (FIRST_MOMENT,)

    def update(
        self, attrs: LionAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr
    ) -> dict[str, Expr]:
        sign = call("sign", attrs.beta1 * m + (1 - attrs.beta1) * g)
        return {
            "p": p - lr * (sign + attrs.weight_decay * p),
            "m": attrs.beta2 * m + (1 - attrs.beta2) * g,
        }

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (*super().samples(), self.sample(257, weight_decay=0.1, beta2=0.5, ranges=table))
