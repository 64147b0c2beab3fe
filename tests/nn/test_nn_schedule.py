"""Schedules as values: what they name, how one is given, and one message for each mistake."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from noeira.errors import OptionError, VerifyError
from noeira.ir.attributes import filled
from noeira.ir.op import op
from noeira.nn import (
    Adam,
    Constant,
    Cosine,
    OneCycle,
    Polynomial,
    Schedule,
    StepDecay,
    TimedSchedule,
    Warmup,
    WarmupCosine,
)
from noeira.nn.schedule import schedule


def test_options_are_the_attributes_of_the_op() -> None:
    cycle = {"minimum": 4e-6, "rise": 0.3, "start": 0.04, "anneal": "cosine", "three_phase": False}
    expected: dict[Any, dict[str, Any]] = {
        StepDecay(epochs=30): {"every": 30, "gamma": 0.1},
        Warmup(steps=500): {"length": 500},
        Cosine(epochs=20, minimum=0.1): {"length": 20, "minimum": 0.1},
        WarmupCosine(steps=9, warmup=2): {"length": 9, "minimum": 0.0, "warmup": 2},
        OneCycle(steps=100): {"length": 100, **cycle},
        Polynomial(epochs=5, power=2): {"length": 5, "minimum": 0.0, "power": 2.0},
    }
    for value, options in expected.items():
        assert value.options() == options
        assert vars(filled(value.op, op(value.op).Attrs, options)) == options
        assert value.by_epoch == (value.epochs is not None)
    assert (Constant().op, Constant().options(), Constant().by_epoch) == ("", {}, False)


def test_values_are_equal_copied_and_pickled() -> None:
    value = WarmupCosine(epochs=20, warmup=2, minimum=0)
    assert value == WarmupCosine(epochs=20, warmup=2) and isinstance(value.minimum, float)
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
    assert {value: 1}[value] == 1


def test_how_a_schedule_is_given() -> None:
    assert schedule(Cosine(steps=5)) == Cosine(steps=5)
    assert schedule(Constant) == schedule(Constant()) == Constant()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Cosine, "Cosine needs steps or epochs: write Cosine(epochs=20) or Cosine(steps=1000)"),
        (
            lambda: WarmupCosine(steps=9, epochs=2, warmup=1),
            "WarmupCosine has both steps and epochs: write WarmupCosine(epochs=20, warmup=2) or "
            "WarmupCosine(steps=1000, warmup=2)",
        ),
        (
            lambda: WarmupCosine(epochs=5, warmup=1),
            "WarmupCosine: warmup=1 is no warm-up, since its only epoch has the whole rate: within "
            "an epoch the rate stays; write 2 or more, or count steps",
        ),
        (
            lambda: Warmup(steps=1),
            "Warmup: steps=1 is no warm-up, since its only step has the whole rate: write 2 or "
            "more",
        ),
        (
            lambda: Cosine(20),  # type: ignore[misc]
            "Cosine: options are given by name, such as Cosine(epochs=20)",
        ),
        (lambda: Warmup(steps=0), "Warmup: steps must be a whole number of at least 1, not 0"),
        (lambda: Warmup(epochs=1.5), "epochs must be a whole number of at least 1, not 1.5"),  # type: ignore[arg-type]
        (lambda: Warmup(epochs=True), "epochs must be a whole number of at least 1, not True"),
        (
            lambda: WarmupCosine(epochs=20),  # type: ignore[call-arg]
            "WarmupCosine needs warmup: write WarmupCosine(epochs=20, warmup=2)",
        ),
        (
            lambda: WarmupCosine(steps=20, warmup=20),
            "WarmupCosine: warmup must be a whole number of at least 0 and less than steps, 20, "
            "not 20",
        ),
        (lambda: Cosine(steps=9, minimum=2), "Cosine: minimum must be from 0 to 1, not 2.0"),
        (lambda: Cosine(steps=9, minimum="a"), "minimum must be a finite number, not 'a'"),  # type: ignore[arg-type]
        (lambda: StepDecay(steps=9, gamma=0), "StepDecay: gamma must be greater than 0, not 0.0"),
        (lambda: Polynomial(steps=9, power=-1), "power must be greater than 0, not -1.0"),
        (lambda: OneCycle(steps=9, rise=1), "rise must be at least 0 and less than 1, not 1.0"),
        (lambda: OneCycle(steps=9, anneal="cos"), "anneal must be 'cosine' or 'linear', not 'cos'"),
        (lambda: OneCycle(steps=9, three_phase=1), "three_phase must be True or False, not 1"),  # type: ignore[arg-type]
        (
            lambda: OneCycle(steps=9, rise=0.6, three_phase=True),
            "OneCycle: rise must be at most 0.5 with three_phase, which falls as long as it rises, "
            "not 0.6",
        ),
        (
            lambda: Cosine(epochs=9, minumum=0),  # type: ignore[call-arg]
            "Cosine has no option minumum; it has steps, epochs, minimum; did you mean minimum?",
        ),
    ],
)
def test_options_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    ("kind", "option", "message"),
    [
        (Cosine, "T_max", "it has steps, epochs, minimum: write steps=… or epochs=…"),
        (Cosine, "eta_min", "minimum: write minimum=…, a share of lr"),
        (Warmup, "eta_min", "Warmup has no option eta_min; it has steps, epochs"),
        (OneCycle, "max_lr", "three_phase: it is the lr of the optimizer"),
        (OneCycle, "div_factor", "three_phase: write start=…, which is 1 / div_factor"),
        (WarmupCosine, "warmup_steps", "it has steps, epochs, minimum, warmup: write warmup=…"),
        (Constant, "factor", "Constant has no option factor; it has none"),
        (Constant, "lr", "Constant has no option lr; it has none: it is the lr of the optimizer"),
    ],
)
def test_options_of_other_libraries(kind: Any, option: str, message: str) -> None:
    with pytest.raises(OptionError, match=f"{re.escape(message)}$"):
        kind(**{option: 1})


class CosineAnnealingLR:
    """As PyTorch's are called."""

    def __repr__(self) -> str:
        return "<theirs>"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Cosine, f"not {Cosine!r}: write schedule=Cosine(epochs=20)"),
        (WarmupCosine, "write schedule=WarmupCosine(epochs=20, warmup=2)"),
        (0.1, "not 0.1: a rate that stays is the lr of the optimizer"),
        ("one_cycle", "not 'one_cycle': write schedule=OneCycle(epochs=20)"),
        ("constant", "not 'constant': write schedule=Constant"),
        (CosineAnnealingLR(), "not <theirs>: write schedule=Cosine(epochs=20)"),
        (
            Adam(),
            "there are Constant, Cosine, OneCycle, Polynomial, StepDecay, Warmup, WarmupCosin",
        ),
        (Schedule(), "not Schedule(): there are Constant, "),
        (TimedSchedule(steps=3), "there are Constant, "),
    ],
)
def test_what_is_no_schedule(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)) as caught:
        schedule(value)
    assert str(caught.value).startswith("schedule must be one such as Cosine(epochs=20), not ")


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("cosine_rate", {}, "cosine_rate needs the attribute 'length'"),
        (
            "cosine_rate",
            {"length": 0},
            "Cosine: length must be a whole number of at least 1, not 0",
        ),
        (
            "warmup_cosine_rate",
            {"length": 3, "warmup": 3},
            "WarmupCosine: warmup must be a whole number of at least 0 and less than length, 3, "
            "not 3",
        ),
        ("step_decay_rate", {"every": 0}, "StepDecay: every must be a whole number of at least 1"),
        ("polynomial_rate", {"length": 2.5}, "polynomial_rate: length must be a whole number"),
    ],
)
def test_attributes_that_cannot_be(name: str, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        filled(name, op(name).Attrs, attrs)
