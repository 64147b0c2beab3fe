"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from noeira.errors import OptionError
from noeira.ir.bounded import BELOW_ONE, NOT_NEGATIVE
from noeira.ir.ops.flat_update import FEW_RANGES
from noeira.ir.ops.optimizer import Optimizer, OptimizerAttrs, OptimizerOptions
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, select
from noeira.ir.states import FIRST_MOMENT


@dataclass(frozen=True)
class SGDOptions(OptimizerOptions):
    """What stochastic gradient descent can be told."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "momentum": BELOW_ONE,
        "dampening": BELOW_ONE,
        "weight_decay": NOT_NEGATIVE,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise OptionError(
                f"{self.label}: nesterov needs momentum greater than 0 and dampening 0"
            )
        if self.dampening and self.momentum == 0:
            raise OptionError(f"{self.label}: dampening needs momentum greater than 0")


@dataclass(frozen=True)
class SGDAttrs(OptimizerAttrs, SGDOptions):
    """The options, and what parameters have of their own."""


class SGD(Optimizer):
    """Stochastic gradient descent as in PyTorch.

    g' = g + weight_decay·p; with momentum: m' = momentum·m + (1 - dampening)·g' (m' = g' at the
    first update), and g' becomes g' + momentum·m' (Nesterov) or m'; p' = p - lr·g'. p [N], g [N],
    lr [], step i64[], ok bool[], m [N] (with momentum) -> p' [N] (, m' [N])
    """

    name, Attrs = "sgd", SGDAttrs
    moments = (FIRST_MOMENT,)

    def kept(self, attrs: SGDAttrs) -> tuple[str, ...]:
        return self.moments if attrs.momentum else ()

    def update(
        self, attrs: SGDAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr | None = None
    ) -> dict[str, Expr]:
        g = g + attrs.weight_decay * p
        if m is None:
            return {"p": p - lr * g}
        first = call("eq", t, 1)
        kept, taken = select(first, 0, attrs.momentum), select(first, 1, 1 - attrs.dampening)
        m = kept * m + taken * g
        change = g + attrs.momentum * m if attrs.nesterov else m
        return {"p": p - lr * change, "m": m}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (
            *super().samples(),
            self.sample(100, weight_decay=0.1),
            self.sample(257, momentum=0.9),
            self.sample(257, momentum=0.9, dampening=0.1, weight_decay=0.1, ranges=table),
            self.sample(100, momentum=0.9, nesterov=True),
            self.sample(100, factors=()),
            self.sample(257, factors=(3,), ranges=table),
            self.sample(100, factors=(1,), weight_decay=0.1),
        )
