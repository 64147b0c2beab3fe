"""Accumulation: a batch taken in parts trains as the whole batch does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from needs import needs_cxx
from program_networks import Small, data, flat

import noeira
from noeira.errors import NoeiraError, NotFiniteError, OptionError, ShapeError
from noeira.ir.states import GATHERED_ROWS
from noeira.job import job_of
from noeira.nn import MSE, SGD, Adam, ClipNorm, CrossEntropy, Linear
from noeira.runtime.entry_point import EntryPoint

TARGETS = ["reference", "cpu", pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]


def program_of(accumulate: int, target: str = "cpu", **options: object) -> noeira.Program:
    """The small network with a batch of 12, taken in so many parts."""
    given = {"optimizer": SGD(lr=0.1, momentum=0.9), **options}
    return noeira.compile(
        Small, loss=CrossEntropy, batch=12, accumulate=accumulate, target=target, **given
    )


@pytest.mark.parametrize("target", TARGETS)
def test_parts_of_a_batch_train_as_the_whole(target: str) -> None:
    x, y = data(31)
    whole, parts = program_of(1, target), program_of(4, target)
    for program in (whole, parts):
        program.load(x, y)
    # 31 samples are two batches of 12, then two parts of 3 and one of 1.
    for _ in range(6):
        assert parts.steps(1) == pytest.approx(whole.steps(1), rel=1e-6)
        np.testing.assert_allclose(flat(parts), flat(whole), rtol=0, atol=1e-6)
    assert parts.updates == 6 and parts.loaded().batches == 3
    assert parts.report()["step"] == 6


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_on_a_batch_is_taken_in_parts(target: str) -> None:
    x, y = data(12)
    whole, parts = (
        program_of(1, target, clip=ClipNorm(0.1)),
        program_of(3, target, clip=ClipNorm(0.1)),
    )
    for _ in range(3):
        wanted, found = whole.run("step", x, y), parts.run("step", x, y)
        for name in ("loss", "grad_norm"):
            assert float(found[name]) == pytest.approx(float(wanted[name]), rel=1e-6)
        assert parts.step(x, y) == pytest.approx(whole.step(x, y), rel=1e-6)
    np.testing.assert_allclose(flat(parts), flat(whole), rtol=0, atol=1e-6)
    assert parts.gradients(x, y) == pytest.approx(whole.gradients(x, y), rel=1e-6)
    np.testing.assert_allclose(parts.forward(x), whole.forward(x), rtol=0, atol=1e-5)


def test_steps_and_single_steps_have_the_same_bits() -> None:
    x, y = data(24)
    native, single = program_of(4, optimizer=Adam), program_of(4, optimizer=Adam)
    native.load(x, y, shuffle=False)
    native.steps(4)
    for start in (0, 12, 0, 12):
        single.step(x[start : start + 12], y[start : start + 12])
    assert flat(native).tobytes() == flat(single).tobytes()


def test_a_part_that_is_not_finite_ends_its_step() -> None:
    x, y = data(24)
    program = program_of(4)
    bad = x.copy()
    bad[7] = np.nan
    before = flat(program)
    assert np.isnan(program.step(bad[:12], y[:12]))
    assert flat(program).tobytes() == before.tobytes() and program.updates == 0
    program.load(bad, y, shuffle=False)
    with pytest.raises(NotFiniteError, match=r"the loss of step 1 is not finite: x\[7, 0\] is nan"):
        program.steps(2)
    assert flat(program).tobytes() == before.tobytes()
    # The whole batch comes next, and nothing of it is gathered.
    assert int(program.own_states["cursor"]) == int(program.own_states[GATHERED_ROWS]) == 0
    program.load(x, y, shuffle=False)
    other = program_of(4)
    other.load(x, y, shuffle=False)
    assert program.steps(2) == other.steps(2)
    assert flat(program).tobytes() == flat(other).tobytes()


def interrupted(entry: EntryPoint, call: Callable[[], object]) -> None:
    """Make a call in which Ctrl-C comes when an entry has run for the first time."""
    run = entry.run

    def stopped(steps: int = 1) -> int:
        run(1)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(entry, "run", stopped)
        call()


def test_ctrl_c_in_the_midst_of_a_batch_lets_the_whole_batch_come_next(tmp_path: Path) -> None:
    x, y = data(24)
    programs = [program_of(4) for _ in range(3)]
    stopped, other, restored = programs
    for program in programs:
        program.load(x, y, shuffle=False)
    interrupted(stopped.entry("steps.micro"), lambda: stopped.steps(2))
    assert int(stopped.own_states["cursor"]) == int(stopped.own_states[GATHERED_ROWS]) == 0
    stopped.save(tmp_path / "stopped")
    restored.restore(tmp_path / "stopped")
    interrupted(stopped.entry("step.micro"), lambda: stopped.step(x[:12], y[:12]))
    wanted = other.steps(2)
    for program in (stopped, restored):
        assert program.steps(2) == wanted
        assert flat(program).tobytes() == flat(other).tobytes()


def test_entries_are_found_by_their_names() -> None:
    job = job_of(Small, loss=CrossEntropy, optimizer=SGD, batch=12, accumulate=4)
    for name in ("step.micro", "step", "steps.micro", "steps"):
        assert job.entry(name).name == name


def test_parts_must_be_equal() -> None:
    with pytest.raises(OptionError) as error:
        program_of(5)
    assert str(error.value) == (
        "accumulate=5 does not divide batch=12: a batch is taken in equal parts; batch=10 would do"
    )
    with pytest.raises(OptionError, match="accumulate goes with an optimizer"):
        noeira.compile(Linear[3, 2], loss=MSE, batch=4, accumulate=2)
    with pytest.raises(NoeiraError, match=r"step\.micro takes a part of a batch: step takes the"):
        program_of(4).run("step.micro", *data(3))
    with pytest.raises(ShapeError, match="x has 3 rows; this program was compiled for batch=12"):
        program_of(4).step(*data(3))
