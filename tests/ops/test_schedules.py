"""Schedules: every rate of a training against PyTorch's schedulers and formulas in NumPy, by steps
and by epochs, up to the end and beyond it; and one defined outside noeira.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from schedules import BY, EPOCH_STEPS, LR, STEPS, Schedules, assert_close
from sweep_units import Variant

from noeira.nn import Cosine, OneCycle, Polynomial, StepDecay, Warmup, WarmupCosine

pytestmark = pytest.mark.xdist_group("schedules")


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def half_cosine(share: float, minimum: float) -> float:
    """From 1 to the minimum."""
    return minimum + (1 - minimum) * 0.5 * (1 + math.cos(math.pi * share))


def one_cycle(u: int, n: int) -> float:
    """By default, for n with more than a step of rise."""
    top, last = 0.3 * n - 1, n - 1
    if u <= top:
        return 1 + (0.04 - 1) * 0.5 * (1 + math.cos(math.pi * u / top))
    return half_cosine((min(u, last) - top) / (last - top), 4e-6)


# A schedule, and its formula: a share of lr.
FORMULAS: dict[str, tuple[Any, Callable[[int], float]]] = {
    "step decay": (StepDecay(steps=7, gamma=0.3), lambda u: 0.3 ** (u // 7)),
    "each step": (StepDecay(steps=1, gamma=0.9), lambda u: 0.9**u),
    "warm-up": (Warmup(steps=9), lambda u: min(1, (u + 1) / 9)),
    "cosine": (Cosine(steps=31, minimum=0.1), lambda u: half_cosine(min(u, 30) / 30, 0.1)),
    "two steps": (Cosine(steps=2), lambda u: float(u == 0)),
    "one step": (Cosine(steps=1, minimum=0.5), lambda u: 1),
    "warm-up and cosine": (
        WarmupCosine(steps=29, warmup=6, minimum=0.05),
        lambda u: (u + 1) / 6 if u < 6 else half_cosine(min(u - 6, 23) / 23, 0.05),
    ),
    "warm-up almost alone": (
        WarmupCosine(steps=6, warmup=5),
        lambda u: (u + 1) / 5 if u < 5 else float(u == 5),
    ),
    "no warm-up before a cosine": (
        WarmupCosine(steps=8, warmup=0),
        lambda u: half_cosine(min(u, 8) / 8, 0),
    ),
    "one cycle": (OneCycle(steps=33), lambda u: one_cycle(u, 33)),
    "polynomial": (
        Polynomial(steps=21, power=2.5, minimum=0.2),
        lambda u: 0.2 + 0.8 * (1 - min(u, 21) / 21) ** 2.5,
    ),
    "line": (Polynomial(steps=13), lambda u: 1 - min(u, 13) / 13),
}
# Those that are tried by epochs.
BY_EPOCH = ("step decay", "warm-up almost alone")

# A schedule, what it is in PyTorch, and for how many steps.
SCHEDULERS: dict[str, tuple[Any, Callable[[Any, Any], Any], int]] = {
    "StepLR": (StepDecay(steps=7, gamma=0.3), lambda s, o: s.StepLR(o, 7, 0.3), 45),
    "LinearLR": (
        Warmup(steps=9),
        lambda s, o: s.LinearLR(o, start_factor=1 / 9, total_iters=8),
        45,
    ),
    "CosineAnnealingLR": (
        Cosine(steps=31, minimum=0.1),
        lambda s, o: s.CosineAnnealingLR(o, T_max=30, eta_min=0.1 * LR),
        31,
    ),
    "SequentialLR": (
        WarmupCosine(steps=29, warmup=6, minimum=0.05),
        lambda s, o: s.SequentialLR(
            o,
            [
                s.LinearLR(o, start_factor=1 / 6, total_iters=5),
                s.CosineAnnealingLR(o, T_max=23, eta_min=0.05 * LR),
            ],
            milestones=[6],
        ),
        29,
    ),
    "OneCycleLR": (
        OneCycle(steps=33),
        lambda s, o: s.OneCycleLR(o, LR, 33, cycle_momentum=False),
        33,
    ),
    "OneCycleLR by lines": (
        OneCycle(steps=40, rise=0.4, start=0.125, minimum=1e-3, anneal="linear"),
        lambda s, o: s.OneCycleLR(
            o,
            LR,
            40,
            pct_start=0.4,
            anneal_strategy="linear",
            div_factor=8,
            final_div_factor=125,
            cycle_momentum=False,
        ),
        40,
    ),
    "OneCycleLR in three phases": (
        OneCycle(steps=37, rise=0.4, three_phase=True),
        lambda s, o: s.OneCycleLR(o, LR, 37, pct_start=0.4, three_phase=True, cycle_momentum=False),
        37,
    ),
    "OneCycleLR that hardly rises": (
        OneCycle(steps=5, rise=0.1),
        lambda s, o: s.OneCycleLR(o, LR, 5, pct_start=0.1, cycle_momentum=False),
        5,
    ),
    "PolynomialLR": (
        Polynomial(steps=21, power=2.5),
        lambda s, o: s.PolynomialLR(o, total_iters=21, power=2.5),
        45,
    ),
}


@cache
def schedules() -> Schedules:
    """All of them."""
    values = [one[0] for one in (*FORMULAS.values(), *SCHEDULERS.values())]
    epochs = [FORMULAS[name][0] for name in BY_EPOCH]
    return Schedules(*([(one.op, one.options()) for one in some] for some in (values, epochs)))


@pytest.mark.parametrize("variant", BY)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rates_are_those_of_the_formulas(variant: Variant | None, dtype: str) -> None:
    for value, formula in FORMULAS.values():
        written = value.op, value.options()
        expected = LR * np.array([formula(u) for u in range(STEPS)])
        assert_close(schedules().rates(variant, written, dtype), expected)


@pytest.mark.parametrize("variant", BY)
@pytest.mark.parametrize("name", BY_EPOCH)
def test_an_epoch_has_one_rate(variant: Variant | None, name: str) -> None:
    value, formula = FORMULAS[name]
    expected = LR * np.array([formula(step // EPOCH_STEPS) for step in range(STEPS)])
    got = schedules().rates(variant, (value.op, value.options()), "f32", by_epoch=True)
    assert_close(got, expected)


@pytest.mark.parametrize("variant", BY)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates_are_those_of_pytorch(torch: Any, variant: Variant | None, name: str) -> None:
    value, make, length = SCHEDULERS[name]
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=LR)
    expected = []
    with warnings.catch_warnings():
        # SequentialLR calls its own schedulers in a way that they warn of.
        warnings.simplefilter("ignore")
        scheduler = make(torch.optim.lr_scheduler, optimizer)
        for step in range(length):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step + 1 < length:
                scheduler.step()
    for dtype in ("f32", "f64"):
        got = schedules().rates(variant, (value.op, value.options()), dtype)
        assert_close(got[:length], np.array(expected))


@pytest.mark.parametrize("variant", BY)
def test_before_the_updates_of_an_epoch_are_known_its_number_is_0(variant: Variant | None) -> None:
    value = FORMULAS["step decay"][0]
    assert schedules().rate(variant, (value.op, value.options()), "f64", 300, 0) == LR


@pytest.mark.parametrize("variant", BY)
def test_far_beyond_the_end_the_last_rate_stays(variant: Variant | None) -> None:
    for value in (one for one, _ in FORMULAS.values() if not isinstance(one, StepDecay)):
        written = value.op, value.options()
        at_end = [schedules().rate(variant, written, "f32", n) for n in (40, 10**12)]
        assert at_end[0] == at_end[1]
