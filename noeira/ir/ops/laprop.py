"""LaProp."""

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


@dataclass(frozen=True)
class LaPropOptions(OptimizerOptions):
    """What LaProp can be told. Weight decay acts on the parameters."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-20
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "beta1": BELOW_ONE,
        "beta2": BELOW_ONE,
        "eps": NOT_NEGATIVE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class LaPropAttrs(OptimizerAttrs, LaPropOptions):
    """The options, and what parameters have of their own."""


class LaProp(Optimizer):
    """LaProp (Ziyin et al. 2020): gradients are divided by their size before they are averaged. As
    in DreamerV3 (Hafner et al. 2023), lr acts on the average; in the paper it is averaged too,
    which is the same while it does not change.

    t = step + 1; v' = β₂·v + (1 - β₂)·g²; u = g / (√(v' / (1 - β₂ᵗ)) + eps); m' = β₁·m + (1 -
    β₁)·u; p' = p - lr·(m' / (1 - β₁ᵗ) + weight_decay·p). p [N], g [N], lr [], step i64[], ok
    bool[], m [N], v [N] (, clip) -> p' [N], m' [N], v' [N]
    """

    name, Attrs = "laprop", LaPropAttrs
    moments, positive = (FIRST_MOMENT, SECOND_MOMENT), (SECOND_MOMENT,)

    def update(
        self, attrs: LaPropAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr, v: Expr
    ) -> dict[str, Expr]:
        v = attrs.beta2 * v + (1 - attrs.beta2) * g * g
        root = 1 / call("sqrt", 1 - call("pow", attrs.beta2, t))
        normalized = g / (call("sqrt", v) * root + attrs.eps)
        m = attrs.beta1 * m + (1 - attrs.beta1) * normalized
        rate = lr / (1 - call("pow", attrs.beta1, t))
        return {"p": p - lr * attrs.weight_decay * p - rate * m, "m": m, "v": v}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (
            *super().samples(),
            self.sample(257, weight_decay=0.1, beta1=0.8, ranges=table),
        )
