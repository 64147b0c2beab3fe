"""Gradients of several calls, added up until an optimizer takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.bounded import Bounded
from noeira.ir.layouts import Range
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, select


@dataclass(frozen=True)
class AccumulateGradientsAttrs(Bounded):
    """weight: a factor on the gradients, the number of samples that they are the mean of. mean:
    whether the sum is divided by all samples, as that which an optimizer takes. ranges: the
    elements that are added up, all if there are none.
    """

    weight: float = 1.0
    mean: bool = False
    ranges: tuple[Range, ...] = ()
    above_zero: ClassVar[tuple[str, ...]] = ("weight",)


class AccumulateGradients(FlatUpdate):
    """Gradients of batches added up, each weighted by its samples, for one step of an optimizer.

    sum' = (sum, or 0 if rows is 0) + weight·grads, where rows samples are in the sum already; mean:
    sum' / (rows + weight), the mean over all of them. What is in `sum` when rows is 0, even NaN,
    does not matter. sum [N], grads [N], rows i64[] (, ok bool[]) -> sum' [N]
    """

    name, Attrs = "accumulate_gradients", AccumulateGradientsAttrs
    operands, results = ("sum", "grads", "rows", "ok"), ("sum",)
    scalars = counters = ("rows",)
    optional = ("ok",)

    def update(
        self, attrs: AccumulateGradientsAttrs, sum: Expr, grads: Expr, rows: Expr
    ) -> dict[str, Expr]:
        total = select(call("eq", rows, 0), 0, sum) + attrs.weight * grads
        return {"sum": total / (rows + attrs.weight) if attrs.mean else total}

    def samples(self) -> tuple[Sample, ...]:
        last = self.sample(257, weight=25.0, mean=True)
        return (
            *super().samples(),
            self.sample(257, weight=25.0),
            last,
            replace(last, operands=last.operands[:-1]),
        )
