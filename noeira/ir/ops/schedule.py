"""Schedules: the learning rate of the next update, each a scalar expression of how far training
is.

Every schedule has the operands lr, step, epoch_steps -> rate. lr [] is the rate that it scales,
step i64[] the updates made so far, and the rate is of lr's type. Time is u: with epoch_steps i64[],
the updates of an epoch, it is counted in whole epochs, u = ⌊step / epoch_steps⌋ (0 as long as that
is 0), else in updates, u = step. It begins at 0 and does not end: beyond its length a schedule
stays where it came to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, VerifyError
from noeira.ir import scalar
from noeira.ir.arrays import dtype_name, rounded
from noeira.ir.bounded import AT_MOST_ONE, Bounded
from noeira.ir.checks import expect
from noeira.ir.formula import wide
from noeira.ir.numbers import whole_number
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import fault_of
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.scalar import Expr, call, var
from noeira.ir.scalar_numpy import evaluate
from noeira.ir.states import COUNTER, EPOCH_STEPS, LEARNING_RATE, STEP
from noeira.ir.types import COMPUTED, TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScheduleOptions(Bounded):
    """The parent of the options of schedules: those of an op, and of the values that users write.

    words: the texts that an option may be.
    """

    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        """Raises OptionError for an option that is not what it must be."""
        super().__post_init__()
        for name, known in self.words.items():
            if getattr(self, name) not in known:
                raise self.out_of_range(name, " or ".join(map(repr, known)))

    def whole(self, name: str, least: int = 1, below: int | None = None, limit: str = "") -> int:
        """An option as a whole number that is at least `least`, and less than `below`, which
        `limit` says what it is. Raises OptionError.
        """
        found = whole_number(getattr(self, name))
        if found is None or found < least or (below is not None and found >= below):
            upper = "" if below is None else f" and less than {limit}, {below}"
            raise self.out_of_range(name, f"a whole number of at least {least}{upper}")
        return found


@dataclass(frozen=True)
class LengthAttrs(ScheduleOptions):
    """length: in steps, or in epochs if the node has epoch_steps."""

    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole("length")


class Schedule(Op):
    """The parent of the schedules: lr [], step i64[] (, epoch_steps i64[]) -> rate [].

    A subclass defines `rate`, and of `Attrs` what that reads. All is reckoned in f64 and rounded
    once to the dtype of lr, which is f32 or f64. A schedule has no gradient, and one kernel of one
    thread.
    """

    operands = (LEARNING_RATE, STEP, EPOCH_STEPS)
    template = "schedule"
    Attrs = ScheduleOptions

    def rate(self, attrs: Any, lr: Expr, u: Expr) -> Expr:
        """The learning rate of the next update, in terms of lr and of the time u."""
        raise VerifyError(f"{self.name}: define `rate` in {type(self).__name__}")

    def expression(self, attrs: Any) -> Expr:
        """The rate over the variables `lr` and `u`. Raises VerifyError if it is none."""
        try:
            signature(self.rate).bind(attrs, var("lr"), var("u"))
        except TypeError:
            raise VerifyError(f"{self.name}: rate must take self, attrs, lr, u") from None
        found = self.rate(attrs, var("lr"), var("u"))
        if fault := fault_of(found, ("lr", "u")):
            raise VerifyError(f"{self.name}: its rate {fault}")
        return found

    def infer(
        self,
        attrs: Any,
        lr: TensorType,
        step: TensorType,
        epoch_steps: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        if lr.shape or lr.dtype not in COMPUTED:
            allowed = " or ".join(f"{dtype}[]" for dtype in COMPUTED)
            raise DtypeError(f"{self.name}: lr is {lr}, it must be {allowed}")
        expect(self.name, STEP, step, COUNTER)
        expect(self.name, EPOCH_STEPS, epoch_steps, COUNTER)
        self.expression(attrs)
        return (lr,)

    def reference(
        self, attrs: Any, lr: np.ndarray, step: np.ndarray, epoch_steps: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        unit = 1 if epoch_steps is None else int(epoch_steps)
        values = wide({"lr": float(lr), "u": int(step) // unit if unit > 0 else 0})
        made = evaluate(self.expression(attrs), values, "f64", ())
        return (rounded(made, dtype_name(lr.dtype)),)

    def flops(self, attrs: Any, *types: TensorType | None) -> int:
        return scalar.operation_count(self.expression(attrs))

    def sample(self, by_epoch: bool = False, **attrs: Any) -> Sample:
        """An early step, or one of some epoch, with these attributes."""
        step, some = Draw(COUNTER, "counter"), Draw(COUNTER, "index", 60)
        operands = (some, step) if by_epoch else (step,)
        return Sample((Draw(f32(), "positive"), *operands), attrs, ())

    def samples(self) -> tuple[Sample, ...]:
        """In their midst, at their end and beyond it; by epochs too."""
        lengths = 5, 8, 100
        return (*(self.sample(length=n) for n in lengths), self.sample(True, length=6))

    def bad_samples(self) -> tuple[BadSample, ...]:
        attrs, whole = self.samples()[0].attrs, TensorType("i32", ())
        return (
            BadSample((f32(1), COUNTER), "it must be f32[] or f64[]", attrs),
            BadSample((TensorType("bf16", ()), COUNTER), "it must be f32[] or f64[]", attrs),
            BadSample((f32(), whole), "step is i32[], it must be i64[]", attrs),
            BadSample((f32(), COUNTER, whole), "epoch_steps is i32[], it must be", attrs),
        )


def between(minimum: float, share: Expr) -> Expr:
    """minimum + (1 − minimum)·share."""
    return minimum + (1 - minimum) * share


@dataclass(frozen=True)
class StepDecayOptions(ScheduleOptions):
    """gamma: what the rate is multiplied by each time."""

    gamma: float = 0.1
    above_zero: ClassVar[tuple[str, ...]] = ("gamma",)


@dataclass(frozen=True)
class StepDecayAttrs(StepDecayOptions):
    """every: after how many steps or epochs."""

    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole("every")


class StepDecayRate(Schedule):
    """lr·gamma^⌊u / every⌋, as StepLR(step_size=every, gamma) of PyTorch."""

    name, Attrs = "step_decay_rate", StepDecayAttrs

    def rate(self, attrs: StepDecayAttrs, lr: Expr, u: Expr) -> Expr:
        return lr * call("pow", attrs.gamma, call("floor", u / attrs.every))

    def samples(self) -> tuple[Sample, ...]:
        return (
            self.sample(),
            self.sample(every=2, gamma=0.5),
            self.sample(every=7, gamma=0.3),
            self.sample(True, every=3),
        )


class WarmupRate(Schedule):
    """lr·min(1, (u + 1) / length): linear up to lr, which the update `length` is the first to have.

    PyTorch's LinearLR(start_factor=1 / length, total_iters=length - 1).
    """

    name, Attrs = "warmup_rate", LengthAttrs

    def rate(self, attrs: LengthAttrs, lr: Expr, u: Expr) -> Expr:
        return lr * call("min", 1, (u + 1) / attrs.length)


@dataclass(frozen=True)
class MinimumOptions(ScheduleOptions):
    """minimum: what is left of lr in the end, as a share of it."""

    minimum: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"minimum": AT_MOST_ONE}


@dataclass(frozen=True)
class PolynomialOptions(MinimumOptions):
    """power: of the share of the length that is left."""

    power: float = 1.0
    above_zero: ClassVar[tuple[str, ...]] = ("power",)


@dataclass(frozen=True)
class PolynomialAttrs(PolynomialOptions, LengthAttrs):
    """The options, and the length."""


class PolynomialRate(Schedule):
    """lr·(minimum + (1 − minimum)·(1 − min(u, length) / length)^power): a line with power 1.

    PyTorch's PolynomialLR(total_iters=length, power=power), which has no minimum.
    """

    name, Attrs = "polynomial_rate", PolynomialAttrs

    def rate(self, attrs: PolynomialAttrs, lr: Expr, u: Expr) -> Expr:
        left = 1 - call("min", u, attrs.length) / attrs.length
        return lr * between(attrs.minimum, call("pow", left, attrs.power))

    def samples(self) -> tuple[Sample, ...]:
        return (*super().samples(), self.sample(length=10, power=0.9, minimum=0.1))
