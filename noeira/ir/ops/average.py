"""Averages of flat states over steps: exponential ones of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from noeira.ir.bounded import AT_MOST_ONE, Bounded
from noeira.ir.layouts import Range
from noeira.ir.ops.flat_update import FEW_RANGES, FlatUpdate
from noeira.ir.samples import BadSample, Sample
from noeira.ir.scalar import Expr, call, select
from noeira.ir.states import STEP


@dataclass(frozen=True)
class MovingAverageAttrs(Bounded):
    """decay: how much of the average stays. from_first: whether the first value is the average of
    itself, for which there is the operand `step`; else the average begins with what it is given.
    ranges: the elements that are averaged, all if there are none, and what `decay` some have of
    their own.
    """

    decay: float = 0.999
    from_first: bool = True
    ranges: tuple[Range, ...] = ()
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"decay": AT_MOST_ONE}


class MovingAverage(FlatUpdate):
    """The exponential moving average of a flat state over steps, as that of PyTorch's
    `AveragedModel` (Polyak and Juditsky 1992).

    average' = decay·average + (1 - decay)·value; from the first: average' = value at step 0.
    average [N], value [N] (, step i64[], from the first) (, ok bool[]) -> average' [N]
    """

    name, Attrs = "moving_average", MovingAverageAttrs
    operands, results = ("average", "value", STEP, "ok"), ("average",)
    scalars, optional, varying = (STEP,), ("ok",), ("decay",)

    def given_operands(self, attrs: MovingAverageAttrs) -> tuple[str, ...]:
        return self.operands if attrs.from_first else ("average", "value", "ok")

    def update(
        self, attrs: MovingAverageAttrs, average: Expr, value: Expr, step: Expr | None = None
    ) -> dict[str, Expr]:
        moved = attrs.decay * average + (1 - attrs.decay) * value
        return {"average": moved if step is None else select(call("eq", step, 0), value, moved)}

    def samples(self) -> tuple[Sample, ...]:
        alone, later = self.sample(100), self.sample(257, from_first=False, decay=0.25)
        return (
            *super().samples(),
            *(replace(one, operands=one.operands[:-1]) for one in (alone, later)),
            later,
            self.sample(257, from_first=False, ranges=self.table(FEW_RANGES)),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        types: Any = tuple(draw.type for draw in self.sample(8).operands)
        return (
            *super().bad_samples(),
            BadSample(types, "takes average, value, ok with these", {"from_first": False}),
        )
