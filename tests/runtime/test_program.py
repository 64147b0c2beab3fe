"""Programs against the reference, their bits, and what they say to bad input."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from program_networks import Small, Wide, data, flat

import noeira
from noeira.errors import DeviceMemoryError
from noeira.ir.random import ORDER_STREAM, permutation
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    AdamW,
    CrossEntropy,
    Linear,
    LinearGELU,
    LinearTanh,
    ReLU,
    Residual,
    Sequential,
    SoftCrossEntropy,
    Tanh,
)

Unfused = Sequential[
    Sequential[Linear[13, 17], ReLU], Residual[Sequential[Linear[17, 17], Tanh]], Linear[17, 5]
]


@pytest.mark.parametrize("net", [Small, Wide], ids=["small", "wide"])
@pytest.mark.parametrize(
    "optimizer",
    [
        Adam(lr=1e-2),
        AdamW(lr=1e-2),
        Adam(lr=1e-2, weight_decay=0.1),
        SGD(lr=0.1),
        SGD(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
        SGD(lr=0.1, momentum=0.9, nesterov=True),
    ],
    ids=["adam", "adamw", "adam-l2", "sgd", "sgd-momentum", "sgd-nesterov"],
)
def test_steps_agree_with_the_reference_in_f64(net: type, optimizer: object) -> None:
    x, y = data(7, dtype="f8")
    options = {"loss": CrossEntropy, "optimizer": optimizer, "batch": 7, "dtype": "f64", "seed": 3}
    compiled = noeira.compile(net, target="cpu", **options)
    reference = noeira.compile(net, target="reference", **options)
    for _ in range(5):
        assert compiled.step(x, y) == pytest.approx(reference.step(x, y), rel=1e-12)
    np.testing.assert_allclose(flat(compiled), flat(reference), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 7, 16, 33, 100])
def test_steps_agree_with_the_reference_in_f32(batch: int) -> None:
    x, y = data(batch)
    loss = CrossEntropy.of(smoothing=0.1)
    options = {"loss": loss, "optimizer": Adam(), "batch": batch, "seed": 1}
    compiled = noeira.compile(Small, target="cpu", **options)
    reference = noeira.compile(Small, target="reference", **options)
    for _ in range(3):
        assert compiled.step(x, y) == pytest.approx(reference.step(x, y), rel=1e-5)
    np.testing.assert_allclose(flat(compiled), flat(reference), atol=2e-5)


def test_gradients_are_those_of_finite_differences() -> None:
    # Smooth throughout: differences across the kink of a ReLU mean nothing.
    net = Sequential[LinearTanh[13, 17], Residual[LinearGELU[17, 17]], Linear[17, 5]]
    x, y = data(6, dtype="f8")
    program = noeira.compile(net, loss=CrossEntropy, batch=6, dtype="f64")
    program.gradients(x, y)
    gradients = {name: program.store.view("grd", name).copy() for name in program.params}
    for name, grad in gradients.items():
        view = program.params[name]
        index = tuple(np.random.default_rng(1).integers(0, n) for n in view.shape)
        old, h = view[index], 1e-4

        def loss(
            offset: float, view: np.ndarray = view, index: tuple = index, old: float = old
        ) -> float:
            view[index] = old + offset
            return program.gradients(x, y)

        # The four-point rule, of fourth order in h.
        slope = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)
        view[index] = old
        assert slope == pytest.approx(grad[index], rel=1e-6, abs=1e-9), name


@needs_compiler
def test_the_unfused_twin_has_the_same_bits_over_100_steps() -> None:
    x, y = data(33)
    programs = [
        noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), batch=33, seed=5)
        for net in (Small, Unfused)
    ]
    for _ in range(100):
        losses = [p.step(x, y) for p in programs]
        assert losses[0] == losses[1]
    # The layouts name the parameters differently but place them alike.
    assert flat(programs[0]).tobytes() == flat(programs[1]).tobytes()
    extra = len(programs[1].plans["forward"].calls) - len(programs[0].plans["forward"].calls)
    assert extra == 2


def test_bits_do_not_depend_on_threads_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(300)
    seen = set()
    for threads in ("1", "2", "3", "1"):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        program = noeira.compile(Wide, loss=CrossEntropy, optimizer=Adam(), batch=300)
        losses = [program.step(x, y) for _ in range(10)]
        seen.add((tuple(losses), flat(program).tobytes(), program.forward(x).tobytes()))
    assert len(seen) == 1


@pytest.mark.parametrize("samples", [40, 47])
def test_native_stepping_has_the_bits_of_steps(samples: int) -> None:
    x, y = data(samples)
    one = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    native = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    native.load(x, y, shuffle=False)
    full = samples // 10
    losses = [one.step(x[i * 10 : i * 10 + 10], y[i * 10 : i * 10 + 10]) for i in range(full)]
    mean = native.steps(full)
    assert mean == pytest.approx(np.mean(losses), rel=1e-6)
    assert flat(one).tobytes() == flat(native).tobytes()


def test_the_smaller_last_batch_is_trained_too() -> None:
    x, y = data(47)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=10)
    program.load(x, y, shuffle=False, evaluation=(x, y))
    program.steps(4)
    before = flat(program)
    program.steps(1)
    twin = noeira.compile(program.module, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=7)
    after = flat(program)
    program.store.arrays["params"][...] = before
    twin.step(x[40:], y[40:])
    assert flat(twin).tobytes() == after.tobytes()


def test_the_order_of_data_follows_from_seed_and_epoch() -> None:
    x, y = data(47)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10, seed=3)
    program.load(x, y)
    orders = []
    for epoch in range(3):
        program.steps(1)
        orders.append(program.entries["steps"].arrays["input order"].copy())
        expected = permutation(3, ORDER_STREAM, 47, tick=epoch)
        np.testing.assert_array_equal(orders[-1], expected)
        program.steps(4)
    assert not np.array_equal(orders[0], orders[1])


def test_evaluation_in_the_middle_of_an_epoch_changes_nothing() -> None:
    x, y = data(47)

    def losses(evaluating: bool) -> list[float]:
        program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
        program.load(x, y, evaluation=(x[:23], y[:23]))
        found = []
        for _ in range(8):
            found.append(program.steps(1))
            if evaluating:
                program.evaluate()
        return found

    assert losses(True) == losses(False)


def test_forward_takes_any_number_of_rows() -> None:
    program = noeira.compile(Small, batch=8)
    x, _ = data(37)
    whole = program.forward(x)
    assert whole.shape == (37, 5)
    for rows in (1, 7, 8, 9, 16):
        np.testing.assert_array_equal(program.forward(x[:rows]), whole[:rows])
    np.testing.assert_array_equal(program.forward(x[::2]), program.forward(x[::2].copy()))


def test_evaluation_counts_every_sample_once() -> None:
    x, y = data(47)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.load(x, y, evaluation=(x[:23], y[:23]))
    found = program.evaluate()
    z = program.forward(x[:23]).astype(np.float64)
    lse = np.log(np.exp(z).sum(1))
    assert found["accuracy"] == pytest.approx((z.argmax(1) == y[:23]).mean())
    assert found["loss"] == pytest.approx((lse - z[np.arange(23), y[:23]]).mean(), rel=1e-6)


def test_any_entry_is_run_by_its_name() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.0), batch=10)
    assert program.run("step", x, y)["loss"] == np.float32(program.step(x, y))
    (z,) = program.run("forward", x[:7]).values()
    np.testing.assert_array_equal(z, program.forward(x[:7]))
    with pytest.raises(noeira.NoeiraError, match="has no serve: it has forward, gradients, step"):
        program.run("serve", x)
    with pytest.raises(noeira.ShapeError, match=r"step takes \(x, y\), got 1 arrays"):
        program.run("step", x)
    program.load(x, y)
    with pytest.raises(noeira.NoeiraError, match="steps takes no arrays: load"):
        program.run("steps", x, y)


def test_regression_and_soft_targets_train() -> None:
    x, _ = data(20)
    target = x @ np.random.default_rng(2).standard_normal((13, 5)).astype("f4")
    for loss, goal in ((MSE, target), (SoftCrossEntropy, np.full((20, 5), 0.2, "f4"))):
        program = noeira.compile(Small, loss=loss, optimizer=Adam(lr=1e-2), batch=20)
        first = program.step(x, goal)
        for _ in range(200):
            last = program.step(x, goal)
        assert last < first


def test_steps_are_reported() -> None:
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam, batch=8)
    program.load(*data(40))
    assert program.report() == {}
    loss = program.steps(3)
    assert program.report() == {"loss": loss, "lr": 0.001, "step": 3}
    assert program.lr == 0.001


def test_the_learning_rate_is_a_state() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.5), batch=10)
    assert program.lr == 0.5
    program.lr = 0.0
    before = flat(program)
    program.step(x, y)
    assert flat(program).tobytes() == before.tobytes()


def test_a_named_network_is_picklable_with_its_type() -> None:
    assert pickle.loads(pickle.dumps(Small)) is Small


@pytest.mark.parametrize("threads", ["1", "2", "3"])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_native_call_ends_by_the_clock(
    target: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOEIRA_THREADS", threads)
    x, y = data(40)
    program = noeira.compile(
        Small, loss=CrossEntropy, optimizer=SGD(lr=0.0), batch=10, target=target
    )
    program.load(x, y, shuffle=False)
    program.steps(1)
    started = time.perf_counter()
    did = program.entries["steps"].run(1_000_000_000)
    assert time.perf_counter() - started < 2.0
    # What was counted is what was done.
    assert 0 < did == program.store.arrays["sgd.step"] - 1
    assert program.loaded().done == (did + 1) % 4


@needs_compiler
def test_a_host_without_the_memory_is_named_with_the_largest_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zeros = np.zeros

    def few(count: Any, *more: Any) -> np.ndarray:
        if int(np.prod(count)) > 30_000_000:
            raise MemoryError
        return zeros(count, *more)

    message = r"out of memory on the host: asked for [\d.]+ MB, .* are free"
    with monkeypatch.context() as patched:
        patched.setattr("numpy.zeros", few)
        with pytest.raises(DeviceMemoryError, match=f"{message}$"):
            Linear[5000, 5000]()
        advice = r"; the largest values are %\S+ \(40\.00 MB\), .*: try a smaller batch"
        with pytest.raises(DeviceMemoryError, match=message + advice):
            noeira.compile(Sequential[Linear[10, 100], Linear[100, 10]], batch=100_000)
