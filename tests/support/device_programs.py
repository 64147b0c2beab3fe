"""Programs on a device that counts what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_device import FakeDevice, choose, kernels, launched_unit
from graphs import emit, f32

import noeira
from noeira.ir.builder import Builder
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.planning.memory import make_plan
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.program import Program

Compile = Callable[..., Program]


# What a fake device stands in for.
REFERENCE = "noeira.runtime.reference.ReferenceToolchain.unit"


class Net(Sequential[LinearReLU[6, 40], Linear[40, 30]]):
    """Its parameters are larger than what travels with a call."""


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples for Net."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 6)).astype(np.float32)
    return x, random.integers(0, 30, rows).astype(np.int32)


@pytest.fixture(params=["asynchronous", "at once"])
def device(request: pytest.FixtureRequest) -> FakeDevice:
    """A device."""
    return FakeDevice(request.param == "asynchronous")


@pytest.fixture
def on_device(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """`compile` for that device."""

    def compiled(net: Any = Net, batch: int = 4, **options: Any) -> Program:
        options = {"loss": CrossEntropy, "optimizer": Adam(lr=0.01), **options}
        with monkeypatch.context() as patch:
            patch.setattr(REFERENCE, launched_unit(device))
            program = noeira.compile(net, batch=batch, target="reference", **options)
        build = program.build_resident

        def build_resident(*sizes: int) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(REFERENCE, launched_unit(device))
                return build(*sizes)

        program.build_resident = build_resident
        return program

    return compiled


def on_reference(net: Any = Net, batch: int = 4, **options: Any) -> Program:
    """The same without a device."""
    options = {"loss": CrossEntropy, "optimizer": Adam(lr=0.01), **options}
    return noeira.compile(net, batch=batch, target="reference", **options)


def moved(device: FakeDevice) -> list[tuple[str, int]]:
    """The copies so far, which are then forgotten."""
    found = [(what, nbytes) for what, nbytes in device.done if what in ("in", "out", "copy")]
    device.done.clear()
    return found


def entry_of(
    device: FakeDevice, op: str, shape: tuple[int, ...], **attrs: Any
) -> tuple[LaunchedEntry, str]:
    """An entry of one op on `x` that gives `y`."""
    builder = Builder("small")
    x = builder.input("x", f32(*shape))
    y = emit(builder, op, x, hint="y", **attrs)
    plan = make_plan(builder.done([y]), choose, "fake")
    symbols, module = kernels(plan)
    return LaunchedEntry(plan, device, module, symbols), "output y"
