"""Programs on a device: the same results as without one, and no more copies than are needed."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_programs import REFERENCE, Compile, Net, data, entry_of, moved, on_reference
from fake_device import FakeDevice, launched_unit

from noeira.errors import DeviceError, NotFiniteError
from noeira.ir.types import TensorType
from noeira.runtime.device import launched_entry
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.device.mirror import Mirror, mirror_of
from noeira.runtime.out_of_memory import largest_values
from noeira.runtime.program import Program
from noeira.runtime.store import Store, aligned_zeros

FLAT = 4 * Net.layout().size


def everything(program: Program) -> dict[str, bytes]:
    """The bytes of every state."""
    return {name: a.tobytes() for name, a in (program.store.arrays | program.own_states).items()}


@pytest.mark.parametrize("small", [0, 4096, 1 << 20])
def test_a_program_gives_the_bits_it_gives_without_a_device(
    on_device: Compile, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched_entry, "SMALL_BYTES", small)
    (x, y), found = data(22), []
    for program in (on_device(), on_reference()):
        results: list[Any] = [program.step(x[:4], y[:4]), program.gradients(x[4:8], y[4:8])]
        program.load(x, y, evaluation=(x[:9], y[:9]))
        results += [program.steps(14), program.evaluate(), program.forward(x).tobytes()]
        program.lr = 0.5
        results += [program.steps(3), everything(program)]
        program.load(x[:11], y[:11], shuffle=False)
        found.append([*results, program.steps(5), everything(program)])
    assert found[0] == found[1]


def bad_run(program: Program, pace: float | None) -> tuple[Any, ...]:
    """Training that meets a sample which is not finite in its sixth step; what is left then."""
    x, y = data(40)
    x[23] = np.nan
    program.load(x, y, shuffle=False)
    fit = program.entries["steps"]
    if isinstance(fit, LaunchedEntry):
        fit.pace = pace
    with pytest.raises(NotFiniteError, match="step 6") as failure:
        program.steps(9)
    assert program.loaded().done == 5 and int(program.store.arrays["tick"]) == 6
    left = everything(program), fit.output("loss").tobytes(), str(failure.value)
    with pytest.raises(NotFiniteError):
        program.steps(1)
    return left, everything(program)


@pytest.mark.parametrize("pace", [None, 1e-9, 0.05 / 3, 1.0])
@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_nothing_changes_after_a_step_that_is_not_ok(
    on_device: Compile, pace: float | None, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched_entry, "MOST_KEPT", kept)
    monkeypatch.setattr(launched_entry, "CALL_SECONDS", 5.0 if pace == 1.0 else 0.05)
    assert bad_run(on_device(), pace) == bad_run(on_reference(), None)


def test_steps_are_launched_ahead_and_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    monkeypatch.setattr(REFERENCE, launched_unit(device))
    program = on_reference()
    program.load(*data(80))
    program.steps(1)
    fit = program.entries["steps"]
    assert isinstance(fit, LaunchedEntry)
    fit.pace = 1e-9
    device.done.clear()
    program.steps(12)
    launched = [what for what, _ in device.done if what.startswith("k")]
    assert len(launched) == 12 * len(fit.launches)
    assert [what for what, _ in device.done].count("wait") == 1
    states = fit.ready_transfer()
    aside = [("copy", FLAT)] * 3
    assert moved(device) == [
        ("in", states.sent.size),
        *aside,
        ("out", states.fetched.size),
    ]


def test_a_call_ends_by_the_clock(on_device: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched_entry, "CALL_SECONDS", 0.0)
    program = on_device()
    program.load(*data(80))
    program.loaded().draw_order(0)
    assert program.entries["steps"].run(20) == 1
    assert int(program.own_states["cursor"]) == 4


def test_what_nobody_holds_stays_on_the_device(on_device: Compile, device: FakeDevice) -> None:
    program = on_device()
    x, y = data(4)
    program.step(x, y)
    moved(device)
    for _ in range(3):
        program.step(x, y)
    program.forward(x)
    assert all(nbytes < FLAT for what, nbytes in moved(device) if what != "copy")
    first = program.params["0.weight"].copy()
    assert moved(device) == [("out", FLAT)]
    assert np.array_equal(program.params["0.weight"], first) and moved(device) == []
    # Whoever asked may have written to it.
    program.step(x, y)
    assert [copied for copied in moved(device) if copied[1] == FLAT] == [("in", FLAT)]


def test_a_view_that_is_held_is_current_and_may_be_written(on_device: Compile) -> None:
    x, y = data(4)
    other, program = on_reference(), on_device()
    pairs = [(p, p.params["1.weight"], p.module.parameter("0.bias").val) for p in (other, program)]
    for _ in range(2):
        for each, weight, bias in pairs:
            each.step(x, y)
            weight[0] = 0.25
            each.step(x, y)
            bias *= 0.5
            each.gradients(x, y)
        assert pairs[0][1].tobytes() == pairs[1][1].tobytes()
        assert pairs[0][2].tobytes() == pairs[1][2].tobytes()
    assert everything(other) == everything(program)


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a[1:3],
        lambda a: a.T,
        lambda a: memoryview(a),
        lambda a: a.view(np.uint8)[5:],
        lambda a: np.lib.stride_tricks.as_strided(a, (2,), (4,)),
        lambda a: iter(a),
        lambda a: a.reshape(-1),
        lambda a: {"of": [a[0]]},
    ],
)
def test_whatever_holds_an_array_is_seen(hold: Callable[[Any], Any]) -> None:
    store = Store(Net.layout())
    store.view("val", "0.weight")
    mirror = mirror_of(store, "params")
    assert not mirror.is_held()
    held = hold(store.view("val", "0.weight"))
    assert mirror.is_held()
    del held
    gc.collect()
    assert not mirror.is_held()


def test_who_held_an_array_before_there_was_a_device_is_seen_too() -> None:
    array = aligned_zeros(TensorType("f32", (100,)))
    part = array[:5]
    memory, mirror = {"params": array}, Mirror(array)
    del array
    assert mirror.is_held()
    del part
    assert not mirror.is_held() and memory


def test_programs_with_and_without_a_device_share_parameters(on_device: Compile) -> None:
    x, y = data(4)
    net = Net(seed=3)
    alone = on_reference(Net(seed=3))
    both = [on_device(net), on_reference(net)]
    for number in range(6):
        both[number % 2].step(x, y)
        alone.step(x, y)
        assert everything(both[0]) == everything(alone)
    assert both[1].params["0.weight"].tobytes() == alone.params["0.weight"].tobytes()


def test_programs_on_two_devices_share_parameters(
    on_device: Compile, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data(4)
    net, other = Net(seed=3), FakeDevice()
    program = on_device(net)
    with monkeypatch.context() as patch:
        patch.setattr(REFERENCE, launched_unit(other))
        second = on_reference(net)
    alone = on_reference(Net(seed=3))
    for number in range(5):
        (program, second)[number % 2].step(x, y)
        alone.step(x, y)
    moved(device)
    assert everything(second) == everything(alone)


def test_a_copy_has_the_newest_elements(on_device: Compile) -> None:
    x, y = data(4)
    program, other = on_device(), on_reference()
    for each in (program, other):
        each.step(x, y)
    for made in (pickle.loads(pickle.dumps(program.module)), copy.deepcopy(program.module)):
        assert made.parameter("0.weight").val.tobytes() == other.params["0.weight"].tobytes()
        assert made.parameter("1.bias").v.tobytes() == other.module.parameter("1.bias").v.tobytes()
    program.gradients(x, y)
    other.gradients(x, y)
    grads = [each.module.parameter("1.weight").grd.tobytes() for each in (program, other)]
    assert grads[0] == grads[1]


def test_the_largest_values_of_a_plan(device: FakeDevice) -> None:
    entry, _ = entry_of(device, "scale", (2000,), factor=2.0)
    assert largest_values(entry.plan) == [("%x", 8000), ("%y", 8000)]


def test_a_launch_that_fails_leaves_what_the_host_has(
    on_device: Compile, device: FakeDevice
) -> None:
    program, other = on_device(), on_reference()
    x, y = data(4)
    step = program.entries["step"]
    assert isinstance(step, LaunchedEntry)
    program.step(x, y)
    before = everything(program)
    device.fails = len(step.launches) - 1
    with pytest.raises(DeviceError, match="the launch failed"):
        program.step(x, y)
    device.fails = -1
    assert everything(program) == before
    other.step(x, y)
    assert program.step(x, y) == other.step(x, y)
    assert device.sessions == 0


def test_ctrl_c_waits_for_the_end_of_the_call(on_device: Compile, device: FakeDevice) -> None:
    program, other = on_device(), on_reference()
    x, y = data(4)
    step = program.entries["step"]
    program.step(x, y)
    assert isinstance(step, LaunchedEntry)
    begin = step.begin[0]

    def interrupted() -> None:
        begin()
        os.kill(os.getpid(), signal.SIGINT)

    step.begin[0] = interrupted
    with pytest.raises(KeyboardInterrupt):
        program.step(x, y)
    for _ in range(2):
        other.step(x, y)
    assert everything(program) == everything(other)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_calls_and_readers_in_several_threads(on_device: Compile) -> None:
    program, other = on_device(), on_reference()
    x, y = data(4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                program.step(x, y)
                assert np.isfinite(program.params["0.weight"]).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(30):
        other.step(x, y)
    assert not failures and everything(program) == everything(other)
