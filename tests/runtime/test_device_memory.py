"""The memory of programs on a device: what is sent, taken over and freed."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from device_programs import Compile, data, entry_of, moved, on_reference
from fake_device import FakeDevice, choose, kernels

from noeira.errors import DeviceMemoryError
from noeira.nn import MSE, SGD, Linear, Sequential
from noeira.planning.memory import make_plan
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.store import aligned_zeros


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
    program.load(x, y)
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
        program.load(x, y, shuffle=False)
        losses.append(program.steps(1))
    assert losses[0] == losses[1]


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
