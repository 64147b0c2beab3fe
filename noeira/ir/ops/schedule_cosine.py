"""Schedules along half a cosine: from the first update on, after a warm-up, and in one cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from noeira.errors import OptionError
from noeira.ir.bounded import AT_MOST_ONE, BELOW_ONE
from noeira.ir.ops.schedule import LengthAttrs, MinimumOptions, Schedule, between
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, select


def falling(share: Expr) -> Expr:
    """From 1 to 0 by half a cosine as the share goes from 0 to 1: ½·(1 + cos(π·share))."""
    return 0.5 * (1 + call("cos", math.pi * share))


@dataclass(frozen=True)
class CosineAttrs(MinimumOptions, LengthAttrs):
    """The options, and the length."""


class CosineRate(Schedule):
    """lr·(minimum + (1 − minimum)·½(1 + cos(π·min(u, length − 1) / (length − 1)))); lr if length is
    1 (Loshchilov and Hutter 2017, without restarts). The first update has lr, the last lr·minimum.

    PyTorch's CosineAnnealingLR(T_max=length - 1, eta_min=minimum·lr) up to there; beyond that one
    rises again.
    """

    name, Attrs = "cosine_rate", CosineAttrs

    def rate(self, attrs: CosineAttrs, lr: Expr, u: Expr) -> Expr:
        last = attrs.length - 1
        if not last:
            return lr
        return lr * between(attrs.minimum, falling(call("min", u, last) / last))

    def samples(self) -> tuple[Sample, ...]:
        return (*super().samples(), self.sample(length=1), self.sample(length=10, minimum=0.1))


@dataclass(frozen=True)
class WarmupCosineAttrs(CosineAttrs):
    """warmup: how much of the length the rate rises, in the unit of the length."""

    warmup: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole("warmup", 0, self.length, "length")


class WarmupCosineRate(Schedule):
    """lr·(u + 1) / warmup while u < warmup, then lr·(minimum + (1 − minimum)·½(1 + cos(π·v))) with
    v = min(u − warmup, n) / n, n = length − warmup. The update after the last would have
    lr·minimum, and all that follow have it.

    PyTorch's SequentialLR of LinearLR(start_factor=1 / warmup, total_iters=warmup - 1) and
    CosineAnnealingLR(T_max=length - warmup), with milestones=[warmup].
    """

    name, Attrs = "warmup_cosine_rate", WarmupCosineAttrs

    def rate(self, attrs: WarmupCosineAttrs, lr: Expr, u: Expr) -> Expr:
        left = attrs.length - attrs.warmup
        share = call("min", u - attrs.warmup, left) / left
        after = between(attrs.minimum, falling(share))
        if not attrs.warmup:
            return lr * after
        return lr * select(call("lt", u, attrs.warmup), (u + 1) / attrs.warmup, after)

    def samples(self) -> tuple[Sample, ...]:
        spans = (10, 9), (10, 2), (8, 7), (5, 2), (100, 0)
        return (
            *(self.sample(length=length, warmup=warmup) for length, warmup in spans),
            self.sample(True, length=6, warmup=2, minimum=0.01),
        )


@dataclass(frozen=True)
class OneCycleOptions(MinimumOptions):
    """rise: the share of the length in which the rate rises; start: what the first update has of
    lr; anneal: `cosine` or `linear`; three_phase: whether the rate falls to the start as it rose,
    and then to the minimum.
    """

    minimum: float = 4e-6
    rise: float = 0.3
    start: float = 0.04
    anneal: str = "cosine"
    three_phase: bool = False
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "rise": BELOW_ONE,
        "start": AT_MOST_ONE,
    }
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"anneal": ("cosine", "linear")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.three_phase and self.rise > 0.5:
            raise OptionError(
                f"{self.label}: rise must be at most 0.5 with three_phase, which falls as long as "
                f"it rises, not {self.rise!r}"
            )


@dataclass(frozen=True)
class OneCycleAttrs(OneCycleOptions, LengthAttrs):
    """The options, and the length."""


@dataclass(frozen=True)
class Turn:
    """A time, and the share of lr that the rate has then."""

    time: float
    share: float


class OneCycleRate(Schedule):
    """One cycle (Smith and Topin 2018): from lr·start up to lr in rise·length updates, then down to
    lr·minimum in the last, each by half a cosine or a line; lr is the greatest rate. Momentum,
    which PyTorch lets fall as the rate rises, stays as it is.

    PyTorch's OneCycleLR(max_lr=lr, total_steps=length, pct_start=rise, div_factor=1 / start,
    final_div_factor=start / minimum, cycle_momentum=False); beyond the end, where that raises, the
    last rate stays.
    """

    name, Attrs = "one_cycle_rate", OneCycleAttrs

    def turns(self, attrs: OneCycleAttrs) -> list[Turn]:
        """Where a phase begins, and where the last one ends."""
        rise = attrs.rise * attrs.length
        found = [Turn(0.0, attrs.start), Turn(rise - 1, 1.0)]
        if attrs.three_phase:
            found.append(Turn(2 * rise - 2, attrs.start))
        return [*found, Turn(attrs.length - 1, attrs.minimum)]

    def rate(self, attrs: OneCycleAttrs, lr: Expr, u: Expr) -> Expr:
        """As in PyTorch, a phase that ends before the first update is left out, and the next one
        begins where it would have ended.
        """
        *phases, last = pairwise(self.turns(attrs))
        now = call("min", u, attrs.length - 1)
        share = self.moved(attrs, *last, now)
        for begin, end in reversed(phases):
            if end.time > begin.time:
                share = select(call("le", now, end.time), self.moved(attrs, begin, end, now), share)
        return lr * share

    def moved(self, attrs: OneCycleAttrs, begin: Turn, end: Turn, now: Expr) -> Expr:
        """The share of lr at a time between two turns."""
        passed = (now - begin.time) / (end.time - begin.time)
        if attrs.anneal == "linear":
            return begin.share + (end.share - begin.share) * passed
        return end.share + (begin.share - end.share) * falling(passed)

    def samples(self) -> tuple[Sample, ...]:
        return (
            *super().samples(),
            self.sample(length=1),
            self.sample(length=40, anneal="linear"),
            self.sample(length=20, three_phase=True, rise=0.25),
            self.sample(length=10, minimum=0.01, start=0.5, anneal="linear"),
        )
