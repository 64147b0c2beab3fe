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
from fake_device import FakeDevice, choose, kernels, launched_unit
from graphs import emit, f32

import noeira
from noeira.errors import DeviceError, DeviceMemoryError, NotFiniteError
from noeira.ir.graph import Builder
from noeira.ir.types import TensorType
from noeira.nn import MSE, SGD, Adam, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.planning.memory import make_plan
from noeira.runtime.device import launched_entry
from noeira.runtime.device.bound_launches import largest_values
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.device.mirror import Mirror, mirror_of
from noeira.runtime.program import Program
from noeira.runtime.store import Store, aligned_zeros

Compile = Callable[..., Program]
# What a fake device stands in for.
REFERENCE = "noeira.runtime.reference.ReferenceToolchain.unit"


class Net(Sequential[LinearReLU[6, 40], Linear[40, 30]]):
    """Its parameters are larger than what travels with a call."""


FLAT = 4 * Net.layout().size


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


def everything(program: Program) -> dict[str, bytes]:
    """The bytes of every state."""
    return {name: a.tobytes() for name, a in (program.store.arrays | program.own_states).items()}


def moved(device: FakeDevice) -> list[tuple[str, int]]:
    """The copies so far, which are then forgotten."""
    found = [(what, nbytes) for what, nbytes in device.done if what in ("in", "out", "copy")]
    device.done.clear()
    return found


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


def test_data_are_sent_once(on_device: Compile, device: FakeDevice) -> None:
    x, y = data(2050)
    program = on_device(batch=100)
    program.load(x, y)
    program.steps(21)
    sent = [nbytes for what, nbytes in moved(device) if what == "in"]
    assert sent.count(x.nbytes) == 1
    program.steps(21)
    assert x.nbytes not in [nbytes for _, nbytes in moved(device)]
    before = program.steps(21)
    x[:] = 0
    program.loaded().renew(x, y, None)
    after = program.steps(21)
    assert [nbytes for what, nbytes in moved(device) if what == "in"].count(x.nbytes) == 1
    assert before != after


def test_renewed_data_are_sent_before_a_last_batch(on_device: Compile) -> None:
    losses = []
    for program in (on_device(), on_reference()):
        x, y = data(10)
        program.load(x, y, shuffle=False)
        program.steps(2)
        x *= 2
        program.loaded().renew(x, y, None)
        losses.append(program.steps(1))
    assert losses[0] == losses[1]


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


def test_an_entry_takes_over_what_another_gives_without_a_copy(device: FakeDevice) -> None:
    first, output = entry_of(device, "scale", (2000,), factor=2.0)
    second, _ = entry_of(device, "scale", (2000,), factor=5.0)
    second.take_over("input x", first, output)
    for number in (1.0, 3.0):
        first.bind_inputs([np.full(2000, number, np.float32)])
        first.run()
        moved(device)
        second.run()
        assert moved(device) == [("out", 8000 + -8000 % 64)]
        assert (second.output("y") == 10 * number).all()
    # Bound for many calls, the input leaves the block, and the output is elsewhere then.
    first.bind("input x", np.full(2000, 4, np.float32))
    first.run()
    second.run()
    assert (second.output("y") == 40).all()
    second.bind_inputs([np.ones(2000, np.float32)])
    second.run()
    assert (second.output("y") == 5).all()
    second.bind("input x", np.full(2000, 2, np.float32))
    second.run()
    second.run()
    assert (second.output("y") == 10).all()
    second.bind("input x", np.full(2000, 4, np.float32))
    second.run()
    assert (second.output("y") == 20).all()
    assert second.given()["x"][0] == 4


def test_entries_without_a_device_take_over_the_array() -> None:
    program = on_reference()
    forward, step = program.entries["forward"], program.entries["step"]
    step.take_over("input x", forward, "output " + forward.graph.outputs[0].name)
    assert step.arrays["input x"] is forward.arrays["output " + forward.graph.outputs[0].name]


def test_memory_is_freed_with_the_program(on_device: Compile, device: FakeDevice) -> None:
    x, y = data(10)
    program = on_device()
    program.load(x, y, evaluation=(x, y))
    program.steps(3)
    program.evaluate()
    before = device.used
    program.load(*data(5000))
    program.steps(1)
    assert device.used > before
    program.load(x, y)
    program.steps(2)
    other = on_reference()
    other.load(x, y)
    other.steps(3)
    other.load(*data(5000))
    other.steps(1)
    other.load(x, y)
    other.steps(2)
    net = program.module
    program.close()
    assert device.used == 0 and not net.store.mirrors
    assert net.parameter("0.weight").val.tobytes() == other.params["0.weight"].tobytes()


def test_memory_is_freed_when_nobody_has_the_program(
    on_device: Compile, device: FakeDevice
) -> None:
    program = on_device()
    program.step(*data(4))
    assert device.used > 0
    del program
    gc.collect()
    assert device.used == 0


def test_no_memory_left(on_device: Compile, device: FakeDevice) -> None:
    program = on_device()
    device.total = 20_000
    with pytest.raises(DeviceMemoryError) as failure:
        program.step(*data(4))
    text = str(failure.value)
    assert text.startswith("out of memory on a fake device: asked for ")
    assert "of 20.00 kB are free; the largest values are %" in text and "try a smaller" in text
    error = failure.value
    assert (error.total, error.free < 20_000, error.asked > error.free) == (20_000, True, True)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == text and again.total == 20_000
    device.total = 1 << 30
    assert program.step(*data(4)) == on_reference().step(*data(4))


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


def test_literals_lie_behind_the_arena(device: FakeDevice) -> None:
    program = on_reference(Sequential[Linear[6, 3]], loss=MSE, optimizer=SGD)
    graph = program.entries["gradients"].graph
    plan = make_plan(graph, choose, "fake")
    literals = [place for place in plan.places if place.kind == "literal"]
    assert literals
    symbols, module = kernels(plan)
    entry = LaunchedEntry(plan, device, module, symbols)
    with device.session():
        for state in graph.states:
            entry.bind_state(state.value.name, aligned_zeros(state.value.type))
        entry.prepare()
        device.synchronize()
    assert entry.arena is not None
    for place in literals:
        at = entry.arena.literal("f32", place.owner)
        assert at % 64 == 0 and at >= entry.arena.pointer + plan.arena
        assert device.at(at, 4).view(np.float32)[0] == float(place.owner)
    room = device.at(entry.arena.pointer, max(plan.arena, 1))
    assert not room[: plan.arena].any()
