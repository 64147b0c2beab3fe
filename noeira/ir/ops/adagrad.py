"""Adagrad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.bounded import NOT_NEGATIVE
from noeira.ir.ops.flat_update import FEW_RANGES
from noeira.ir.ops.optimizer import Optimizer, OptimizerAttrs, OptimizerOptions
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call
from noeira.ir.states import SECOND_MOMENT


@dataclass(frozen=True)
class AdagradOptions(OptimizerOptions):
    """What Adagrad can be told. lr_decay: how fast the learning rate falls with the updates."""

    lr_decay: float = 0.0
    eps: float = 1e-10
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "lr_decay": NOT_NEGATIVE,
        "eps": NOT_NEGATIVE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class AdagradAttrs(OptimizerAttrs, AdagradOptions):
    """The options, and what parameters have of their own."""


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011) as in PyTorch.

    t = step + 1; g' = g + weight_decay·p; v' = v + g'²; p' = p - lr / (1 + (t - 1)·lr_decay) · g' /
    (√v' + eps). p [N], g [N], lr [], step i64[], ok bool[], v [N] (, clip) -> p' [N], v' [N]
    """

    name, Attrs = "adagrad", AdagradAttrs
    moments = positive = (SECOND_MOMENT,)

    def update(
        self, attrs: AdagradAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, v: Expr
    ) -> dict[str, Expr]:
        g = g + attrs.weight_decay * p
        v = v + g * g
        rate = lr / (1 + (t - 1) * attrs.lr_decay) if attrs.lr_decay else lr
        return {"p": p - rate * g / (call("sqrt", v) + attrs.eps), "v": v}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        decayed = self.sample(257, weight_decay=0.1, lr_decay=0.1, ranges=table)
        return (*super().samples(), decayed)
