"""Schedules in training: by steps and by epochs, what is reported, where epochs are not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from needs import needs_cxx
from program_networks import data, flat
from torch_twin import Twin, TwinNet

import noeira
from noeira.errors import NoeiraError, OptionError
from noeira.nn import SGD, Adam, Constant, Cosine, CrossEntropy, StepDecay, Warmup, WarmupCosine

TARGETS = ["reference", "cpu", pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]


def program_of(schedule: object, target: str = "cpu", **options: object) -> noeira.Program:
    """The network of the twin, with a batch of 20."""
    given = {"optimizer": SGD(lr=0.5), "batch": 20, **options}
    return noeira.compile(TwinNet, loss=CrossEntropy, schedule=schedule, target=target, **given)


@pytest.mark.parametrize("target", TARGETS)
def test_a_scheduled_network_trains_as_in_pytorch(target: str) -> None:
    x, y = data(20)
    program = program_of(Cosine(steps=21, minimum=0.1), target, optimizer=Adam(lr=1e-2))
    twin = Twin(program)
    optimizer = twin.torch.optim.Adam(twin.net.parameters(), lr=1e-2)
    schedule = twin.torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20, eta_min=1e-3)
    for _ in range(20):
        rate = program.run("step", x, y)["rate"]
        assert float(rate) == pytest.approx(schedule.get_last_lr()[0], rel=1e-6)
        twin.step(optimizer, x, y)
        schedule.step()
    twin.check(program, 1e-3, 1e-4)


def test_epochs_are_counted_by_the_data() -> None:
    x, y = data(50)
    program = program_of(StepDecay(epochs=1, gamma=0.5))
    program.load(x, y)
    assert program.epoch_steps == 3
    rates = []
    for _ in range(6):
        program.steps(1)
        rates.append(program.report()["lr"])
    assert rates == [0.5] * 3 + [0.25] * 3


def test_epochs_of_batches_of_ones_own_are_said() -> None:
    x, y = data(20)
    program = program_of(Warmup(epochs=2))
    with pytest.raises(NoeiraError) as error:
        program.step(x, y)
    assert str(error.value) == (
        "the schedule counts epochs: load(x, y) says how many steps one has; for batches of your "
        "own write program.epoch_steps = …"
    )
    program.epoch_steps = 2
    assert [float(program.run("step", x, y)["rate"]) for _ in range(4)] == [0.25, 0.25, 0.5, 0.5]
    with pytest.raises(OptionError, match="epoch_steps must be a whole number of at least 1"):
        program.epoch_steps = 0


def test_a_step_that_is_not_ok_is_not_counted() -> None:
    x, y = data(20)
    program = program_of(Warmup(steps=4))
    bad = np.full_like(x, math.nan)
    rates = [float(program.run("step", given, y)["rate"]) for given in (x, bad, bad, x)]
    assert rates == [0.125, 0.25, 0.25, 0.25]


def test_the_base_rate_is_still_a_state() -> None:
    x, y = data(20)
    program = program_of(Warmup(steps=4))
    program.lr = 1.0
    assert float(program.run("step", x, y)["rate"]) == 0.25
    assert program.lr == 1.0


def test_a_constant_rate_is_no_node() -> None:
    x, y = data(20)
    plain, constant = program_of(None), program_of(Constant())
    assert plain.source == constant.source
    assert plain.step(x, y) == constant.step(x, y)
    assert flat(plain).tobytes() == flat(constant).tobytes()


def test_a_schedule_goes_on_from_a_checkpoint(tmp_path) -> None:
    x, y = data(60)
    schedule = WarmupCosine(epochs=4, warmup=2)
    whole, first, second = (program_of(schedule, optimizer=Adam, ema=0.9) for _ in range(3))
    for program in (whole, first):
        program.load(x, y)
    whole.steps(8)
    first.steps(5)
    first.save(tmp_path / "net.safetensors")
    second.restore(tmp_path / "net.safetensors")
    second.load(x, y)
    second.steps(3)
    assert second.report()["lr"] == whole.report()["lr"]
    assert flat(second).tobytes() == flat(whole).tobytes()
    for name in ("ema", "adam.m", "adam.v"):
        assert second.store.arrays[name].tobytes() == whole.store.arrays[name].tobytes()
