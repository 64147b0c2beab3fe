"""Schedules: plain frozen values that say how the learning rate changes while a network trains.
Their formulas are those of their ops; the rate that they scale is the optimizer's lr.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import OptionError
from noeira.ir.numbers import real_number
from noeira.ir.ops.schedule import (
    MinimumOptions,
    PolynomialOptions,
    ScheduleOptions,
    StepDecayOptions,
)
from noeira.ir.ops.schedule_cosine import OneCycleOptions
from noeira.nn.core.option_value import OptionValue

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "Constant",
    "Cosine",
    "OneCycle",
    "Polynomial",
    "Schedule",
    "StepDecay",
    "TimedSchedule",
    "Warmup",
    "WarmupCosine",
]

# Options of other libraries: what they are here ("" if they are no options), and what to write.
LENGTH = "steps", "write steps=… or epochs=…"
MINIMUM = "minimum", "write minimum=…, a share of lr"
RATE, WARMUP = ("", "it is the lr of the optimizer"), ("warmup", "write warmup=…")
KNOWN_AS = {
    **dict.fromkeys(("T_max", "step_size", "total_steps", "total_iters", "length"), LENGTH),
    **dict.fromkeys(("eta_min", "min_lr"), MINIMUM),
    **dict.fromkeys(("lr", "max_lr", "learning_rate"), RATE),
    **dict.fromkeys(("warmup_steps", "warmup_epochs", "warmup_length"), WARMUP),
    "pct_start": ("rise", "write rise=…"),
    "div_factor": ("start", "write start=…, which is 1 / div_factor"),
    "final_div_factor": ("minimum", "write minimum=…, which is start / final_div_factor"),
    "anneal_strategy": ("anneal", 'write anneal="cosine" or "linear"'),
}
# Schedulers of PyTorch, and names that others have for schedules.
THEIRS = {
    "StepLR": "StepDecay",
    "LinearLR": "Warmup",
    "CosineAnnealingLR": "Cosine",
    "OneCycleLR": "OneCycle",
    "PolynomialLR": "Polynomial",
    "ConstantLR": "Constant",
    "SequentialLR": "WarmupCosine",
    "linear": "Polynomial",
    "step": "StepDecay",
}


@dataclass(frozen=True, kw_only=True)
class Schedule(OptionValue, ScheduleOptions):
    """The parent of the schedules. An `op` of "" is the learning rate as it is."""

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Raises OptionError for an option that there is not, that has no name, or is missing."""
        if args:
            example = f", such as {cls.needs}" if cls.needs else ""
            raise OptionError(f"{cls.__name__}: options are given by name{example}")
        names = [field.name for field in fields(cls)]
        for name in options:
            own, meant = KNOWN_AS.get(name, (None, ""))
            if name not in names and own in ("", *names):
                listed = ", ".join(names) or "none"
                raise OptionError(f"{cls.__name__} has no option {name}; it has {listed}: {meant}")
        return super().__new__(cls, **options)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return partial(type(self), **vars(self)), ()

    @property
    def by_epoch(self) -> bool:
        """Whether its time is counted in epochs, not in steps."""
        return False


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The learning rate as it is: no node."""


@dataclass(frozen=True, kw_only=True)
class TimedSchedule(Schedule):
    """The parent of the schedules that last so many steps (updates) or so many epochs: one of both
    is given.

    measure: what the operation calls this length.
    """

    measure: ClassVar[str] = "length"
    steps: int | None = None
    epochs: int | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "needs" not in vars(cls):
            cls.needs = f"{cls.__name__}(epochs=20)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.steps is None) == (self.epochs is None):
            fault = "needs steps or epochs" if self.steps is None else "has both steps and epochs"
            steps = self.needs.replace("epochs=20", "steps=1000")
            raise OptionError(f"{self.label} {fault}: write {self.needs} or {steps}")
        object.__setattr__(self, self.unit, self.whole(self.unit))

    @property
    def by_epoch(self) -> bool:
        return self.epochs is not None

    @property
    def unit(self) -> str:
        """What its length is given in."""
        return "epochs" if self.by_epoch else "steps"

    @property
    def length(self) -> int:
        """How long it is, in its unit."""
        return getattr(self, self.unit)

    def check_rises(self, name: str, length: int) -> None:
        """Raises OptionError for a rise of one step or epoch, which has the whole rate at once."""
        if length == 1:
            instead = "write 2 or more"
            if self.by_epoch:
                instead = f"within an epoch the rate stays; {instead}, or count steps"
            raise OptionError(
                f"{self.label}: {name}=1 is no warm-up, since its only "
                f"{self.unit.removesuffix('s')} has the whole rate: {instead}"
            )

    def options(self) -> dict[str, Any]:
        found = super().options()
        return {self.measure: self.length} | {
            name: value for name, value in found.items() if name not in ("steps", "epochs")
        }


@dataclass(frozen=True, kw_only=True)
class StepDecay(StepDecayOptions, TimedSchedule):
    """lr · gamma^⌊u / n⌋: times gamma after every n steps or epochs, n = steps or epochs.

    `StepDecay(epochs=30, gamma=0.1)` is PyTorch's StepLR(step_size=30, gamma=0.1).
    """

    op: ClassVar[str] = "step_decay_rate"
    measure: ClassVar[str] = "every"


@dataclass(frozen=True, kw_only=True)
class Warmup(TimedSchedule):
    """lr · min(1, (u + 1) / n): linear up to lr in n steps or epochs, then lr.

    PyTorch's LinearLR(start_factor=1 / n, total_iters=n - 1).
    """

    op: ClassVar[str] = "warmup_rate"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_rises(self.unit, self.length)


@dataclass(frozen=True, kw_only=True)
class Cosine(MinimumOptions, TimedSchedule):
    """lr · (minimum + (1 − minimum) · ½(1 + cos(π·u / (n − 1)))) for the n steps or epochs u = 0 …
    n − 1, then lr · minimum (Loshchilov and Hutter 2017, without restarts).

    minimum: a share of lr. PyTorch's CosineAnnealingLR(T_max=n - 1, eta_min=minimum · lr), which
    rises again after T_max.
    """

    op: ClassVar[str] = "cosine_rate"


@dataclass(frozen=True, kw_only=True)
class WarmupCosine(MinimumOptions, TimedSchedule):
    """lr · (u + 1) / w for u < w, then lr · (minimum + (1 − minimum) · ½(1 + cos(π·(u − w) / (n −
    w)))) up to u = n, then lr · minimum. Of n steps or epochs the first w = warmup rise.

    `WarmupCosine(epochs=20, warmup=2, minimum=0.01)`. PyTorch's SequentialLR of LinearLR and
    CosineAnnealingLR(T_max=n - w).
    """

    op: ClassVar[str] = "warmup_cosine_rate"
    needs: ClassVar[str] = "WarmupCosine(epochs=20, warmup=2)"
    warmup: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "warmup", self.whole("warmup", 0, self.length, self.unit))
        self.check_rises("warmup", self.warmup)


@dataclass(frozen=True, kw_only=True)
class OneCycle(OneCycleOptions, TimedSchedule):
    """One cycle (Smith and Topin 2018): from lr · start up to lr in the first rise · n of n steps
    or epochs, then down to lr · minimum in the last. Each by half a cosine, or a line with
    anneal="linear". three_phase: down to lr · start first, as long as it rose. lr is the greatest
    rate. Momentum is not cycled.

    PyTorch's OneCycleLR(max_lr=lr, total_steps=n, pct_start=rise, div_factor=1 / start,
    final_div_factor=start / minimum, cycle_momentum=False).
    """

    op: ClassVar[str] = "one_cycle_rate"


@dataclass(frozen=True, kw_only=True)
class Polynomial(PolynomialOptions, TimedSchedule):
    """lr · (minimum + (1 − minimum) · (1 − min(u, n) / n)^power): a line with power 1.

    PyTorch's PolynomialLR(total_iters=n, power=power), which has no minimum.
    """

    op: ClassVar[str] = "polynomial_rate"


def schedule(value: Any) -> Schedule:
    """What a user gave as the schedule: a value, or the class of one that needs no options.

    Raises OptionError, which says what to write.
    """
    if isinstance(value, Schedule) and is_whole(type(value)):
        return value
    kind = value if isinstance(value, type) and issubclass(value, Schedule) else Schedule
    if is_whole(kind) and not kind.needs:
        return kind()
    instead = f"write schedule={kind.needs}" if is_whole(kind) else advice(value)
    raise OptionError(f"schedule must be one such as Cosine(epochs=20), not {value!r}: {instead}")


def is_whole(kind: type[Schedule]) -> bool:
    """Whether it is more than the parent of others."""
    return bool(kind.op) or kind is Constant


def advice(value: Any) -> str:
    """What to write for something that is no schedule."""
    known = {name: globals()[name] for name in __all__ if is_whole(globals()[name])}
    if real_number(value) is not None:
        return "a rate that stays is the lr of the optimizer"
    name = value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)
    by_lower = {name.lower(): name for name in known}
    meant = THEIRS.get(name) or by_lower.get(name.lower().replace("_", ""))
    if meant:
        return f"write schedule={known[meant].needs or meant}"
    return f"there are {', '.join(known)}"
