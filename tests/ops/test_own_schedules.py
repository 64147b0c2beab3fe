"""Schedules defined outside noeira: an expression gives the reference, C and CUDA; and one message
for each mistake in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from schedules import BY, LR, STEPS, Schedules, assert_close
from sweep_units import Variant

from noeira.errors import OptionError, VerifyError
from noeira.ir.op import OPS
from noeira.ir.ops.schedule import LengthAttrs, Schedule, ScheduleOptions
from noeira.ir.scalar import Expr, call, lift, var
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType
from noeira.nn import Schedule as ScheduleValue
from noeira.nn import TimedSchedule
from noeira.nn.schedule import schedule

pytestmark = pytest.mark.xdist_group("own schedules")


class Triangle(Schedule):
    """Up and down by lines again and again (Smith 2017)."""

    name, Attrs = "own_triangle", LengthAttrs

    def rate(self, attrs: LengthAttrs, lr: Expr, u: Expr) -> Expr:
        turns = u / attrs.length
        return lr * (1 - call("abs", 2 * (turns - call("floor", turns)) - 1))


@dataclass(frozen=True, kw_only=True)
class Triangular(TimedSchedule):
    """A value for it."""

    op: ClassVar[str] = "own_triangle"


@dataclass(frozen=True, kw_only=True)
class InverseRootOptions(ScheduleOptions):
    """scale: of the time."""

    scale: float = 1.0
    above_zero: ClassVar[tuple[str, ...]] = ("scale",)


class InverseRoot(Schedule):
    """1 / √(1 + u / scale) in place of the learning rate."""

    name, Attrs = "own_inverse_root", InverseRootOptions

    def rate(self, attrs: InverseRootOptions, lr: Expr, u: Expr) -> Expr:
        return 1 / call("sqrt", call("max", 1, 1 + u / attrs.scale))


@dataclass(frozen=True, kw_only=True)
class Falling(InverseRootOptions, ScheduleValue):
    """A value for it, which has no length."""

    op: ClassVar[str] = "own_inverse_root"


OWN = {rule.name: OPS.pop(rule.name) for rule in (Triangle, InverseRoot)}
OWN_CASES = {
    "triangles": ("own_triangle", {"length": 7}, lambda u: 1 - abs(2 * (u / 7 % 1) - 1)),
    "inverse root": ("own_inverse_root", {"scale": 3.0}, lambda u: (1 + u / 3) ** -0.5 / LR),
}


@pytest.fixture(autouse=True)
def defined() -> Iterator[None]:
    """The ops are there for these tests alone."""
    before = dict(OPS)
    OPS.update(OWN)
    yield
    OPS.clear()
    OPS.update(before)


@cache
def schedules() -> Schedules:
    """All of them."""
    return Schedules([(name, attrs) for name, attrs, _ in OWN_CASES.values()])


@pytest.mark.parametrize("variant", BY)
@pytest.mark.parametrize("case", OWN_CASES)
def test_kernels_and_the_reference_are_the_formula(variant: Variant | None, case: str) -> None:
    name, attrs, formula = OWN_CASES[case]
    expected = LR * np.array([formula(u) for u in range(STEPS)])
    for dtype in ("f32", "f64"):
        assert_close(schedules().rates(variant, (name, attrs), dtype), expected)


def test_values_for_them() -> None:
    value = schedule(Triangular(epochs=3))
    assert (value.op, value.options(), value.by_epoch) == ("own_triangle", {"length": 3}, True)
    with pytest.raises(OptionError, match=r"write schedule=Triangular\(epochs=20\)"):
        schedule(Triangular)
    assert schedule(Falling) == schedule(Falling()) == Falling(scale=1.0)
    with pytest.raises(OptionError, match="Falling: scale must be greater than 0, not -1"):
        Falling(scale=-1)


def with_rate(rate: Any) -> Schedule:
    """A schedule with that method."""
    made: Any = type("Wrong", (Schedule,), {"name": "own_wrong", "rate": rate})
    return made()


# A method, and what is said of it.
WRONG = {
    "operands": (lambda self, attrs, lr: lr, "own_wrong: rate must take self, attrs, lr, u"),
    "a number": (
        lambda self, attrs, lr, u: 0,
        "own_wrong: its rate must be an expression, not 0: write lift(0.0)",
    ),
    "a stranger": (
        lambda self, attrs, lr, u: var("step"),
        "own_wrong: its rate uses step, which is no operand; its operands are lr, u",
    ),
    "a comparison": (
        lambda self, attrs, lr, u: call("lt", u, 3),
        "own_wrong: its rate is a comparison: write select(…, 1, 0)",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_one_message_for_each_mistake(mistake: str) -> None:
    rate, said = WRONG[mistake]
    with pytest.raises(VerifyError, match=re.escape(said)):
        with_rate(rate).types(ScheduleOptions(), [TensorType("f32", ()), COUNTER])


def test_a_schedule_without_a_rate() -> None:
    undone: Any = type("Undone", (Schedule,), {"name": "own_undone"})
    with pytest.raises(VerifyError, match="own_undone: define `rate` in Undone"):
        undone().types(ScheduleOptions(), [TensorType("f32", ()), COUNTER])


def test_a_rate_that_is_one_number() -> None:
    rule = with_rate(lambda self, attrs, lr, u: lift(0.5))
    (rate,) = rule.reference(ScheduleOptions(), np.array(1, np.float32), np.array(3))
    assert rate == np.float32(0.5) and rate.dtype == np.float32 and rate.shape == ()
