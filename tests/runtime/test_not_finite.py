"""A step whose loss is not finite: what it changes, and what is said."""

from __future__ import annotations

import numpy as np
import pytest
from program_networks import Small, data

import noeira
from noeira.nn import (
    Adam,
    CrossEntropy,
)


def test_a_bad_step_inside_a_native_call_of_several() -> None:
    x, y = data(60)
    x[45, 2] = np.nan
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.load(x, y, shuffle=False)
    with pytest.raises(noeira.NotFiniteError, match=r"step 5 is not finite: x\[45, 2\] is nan"):
        program.steps(6)
    assert program.store.arrays["adam.step"] == 4 and program.loaded().done == 4
    x[45, 2] = 0
    program.load(x, y, shuffle=False)
    program.steps(14)
    assert program.loaded().epoch == 3


def test_a_loss_that_is_not_finite_changes_nothing_but_the_tick() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.step(x, y)
    names = ("params", "adam.m", "adam.v", "adam.step")
    before = {n: program.store.arrays[n].tobytes() for n in names}
    bad = x.copy()
    bad[3, 4] = np.nan
    assert np.isnan(program.step(bad, y))
    assert {n: program.store.arrays[n].tobytes() for n in names} == before
    assert program.store.arrays["tick"] == 2
    assert np.isfinite(program.step(x, y))


def test_native_stepping_stops_at_a_bad_loss_and_names_the_node() -> None:
    x, y = data(40)
    x[25, 2] = np.inf
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.load(x, y, shuffle=False)
    with pytest.raises(noeira.NotFiniteError, match=r"step 3 is not finite: x\[25, 2\] is inf;"):
        program.steps(4)
    assert program.store.arrays["adam.step"] == 2
    program.params["2.bias"][0] = np.nan
    with pytest.raises(noeira.NotFiniteError, match=r"parameter 2\.bias is not finite"):
        program.steps(4)


def test_a_node_that_overflows_is_named() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.params["0.weight"][...] = 3e38
    program.load(x, y, shuffle=False)
    with pytest.raises(
        noeira.NotFiniteError, match=r"%0\.linear, the linear of 0: Linear\[13, 17\]"
    ):
        program.steps(1)
