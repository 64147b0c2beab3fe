"""Programs against the reference, their bits, and what they say to bad input."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira.ir.random import ORDER_STREAM, permutation
from noeira.nn import (
    ELU,
    MSE,
    SGD,
    Adam,
    AdamW,
    CrossEntropy,
    Linear,
    LinearGELU,
    LinearReLU,
    LinearSiLU,
    LinearTanh,
    Mish,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    SoftCrossEntropy,
    Tanh,
)

Small = Sequential[LinearReLU[13, 17], Residual[LinearTanh[17, 17]], Linear[17, 5]]
Unfused = Sequential[
    Sequential[Linear[13, 17], ReLU], Residual[Sequential[Linear[17, 17], Tanh]], Linear[17, 5]
]
Wide = Sequential[
    Parallel[LinearGELU[13, 8], LinearSiLU[13, 9]],
    Repeat[2, LinearReLU[17, 17]],
    ELU,
    Mish,
    Linear[17, 5],
]


def data(rows: int, seed: int = 0, dtype: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and class numbers."""
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, 13)).astype(dtype), random.integers(0, 5, rows)


def flat(program: noeira.Program) -> np.ndarray:
    """All parameters, copied."""
    return program.store.arrays["params"].copy()


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


def test_a_bad_step_inside_a_native_call_of_several() -> None:
    x, y = data(60)
    x[45, 2] = np.nan
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
    program.load(x, y, shuffle=False)
    with pytest.raises(noeira.NotFiniteError, match=r"step 5 is not finite: x\[45, 2\] is nan"):
        program.steps(6)
    assert program.store.arrays["adam.step"] == 4 and program.loaded().done == 4
    x[45, 2] = 0
    program.loaded().renew(x, y, None)
    program.steps(14)
    assert program.loaded().epoch == 3


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


def test_programs_share_the_memory_of_an_instance() -> None:
    net = Small(seed=4)
    train = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), batch=10)
    serve = noeira.compile(net, batch=1)
    x, y = data(10)
    before = serve.forward(x)
    train.step(x, y)
    after = serve.forward(x)
    assert not np.array_equal(before, after)
    net[0].weight.val[...] = 0
    np.testing.assert_array_equal(train.params["0.weight"], 0)
    train.gradients(x, y)
    assert net[2].bias.grd.any()


def test_views_speak_dlpack_and_accept_it() -> None:
    program = noeira.compile(Small, batch=4)
    x, _ = data(4)

    class Foreign:
        def __dlpack__(self, **options: object) -> object:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> object:
            return x.__dlpack_device__()

    np.testing.assert_array_equal(program.forward(Foreign()), program.forward(x))
    view = program.params["0.weight"]
    assert np.shares_memory(np.from_dlpack(view), view)


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


def test_the_learning_rate_is_a_state() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.5), batch=10)
    assert program.lr == 0.5
    program.lr = 0.0
    before = flat(program)
    program.step(x, y)
    assert flat(program).tobytes() == before.tobytes()


def test_calls_from_threads_wait_for_each_other() -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.01), batch=10)
    workers = [
        threading.Thread(target=lambda: [program.step(x, y) for _ in range(50)]) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert program.store.arrays["sgd.step"] == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_a_thread_steps_does_not_hang() -> None:
    x, y = data(100)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=SGD(lr=0.0), batch=100)
    program.step(x, y)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            program.step(x, y)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            assert in_a_child(lambda: np.isfinite(program.forward(x[:7])).all())
    finally:
        stop.set()
        worker.join()


def in_a_child(check: Callable[[], Any]) -> bool:
    """Whether the check holds in a forked process, which has 20 seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_computes_the_same() -> None:
    x, _ = data(200)
    program = noeira.compile(Wide, batch=200)
    expected = program.forward(x).tobytes()
    assert in_a_child(lambda: program.forward(x).tobytes() == expected)


def given_otherwise(x: np.ndarray, y: np.ndarray) -> list[tuple[Any, Any]]:
    """The same batch, but not as arrays that are taken as they are."""
    frozen, view = x.copy(), x.view(np.memmap)
    frozen.flags.writeable = False
    swapped = y.astype(y.dtype.newbyteorder())
    return [
        (np.asfortranarray(x), y.astype(np.int64)),
        (np.repeat(x, 2, axis=0)[::2], y.astype(np.uint8)),
        (frozen, np.repeat(y, 2)[::2]),
        (view, swapped),
        (x.astype(x.dtype.newbyteorder()), y),
    ]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_batch_has_one_result_however_it_lies_in_memory(target: str) -> None:
    x, y = data(10)
    y = y.astype(np.int32)
    program = noeira.compile(Small, loss=CrossEntropy, batch=10, target=target)
    entry = program.entries["gradients"]
    assert entry.takes((x, y)) and program.entries["forward"].takes((x,))
    loss, z = program.gradients(x, y), program.forward(x)
    for other_x, other_y in given_otherwise(x, y):
        assert not entry.takes((other_x, other_y)) or not other_x.flags.writeable
        assert program.gradients(other_x, other_y) == loss
        np.testing.assert_array_equal(program.forward(other_x), z)


def test_what_is_taken_as_it_is_needs_no_message() -> None:
    x, y = data(10)
    y = y.astype(np.int32)
    entry = noeira.compile(Small, loss=CrossEntropy, batch=10).entries["gradients"]
    wrong = [(x,), (x, y, y), (x[:9], y), (x.astype("f8"), y), (list(x), y), (x, y[None])]
    wrong += [(x, np.where(np.arange(10) == 7, bad, y).astype("i4")) for bad in (5, -1, -(2**31))]
    assert not any(entry.takes(given) for given in wrong)


def test_an_array_whose_memory_moved_is_read_where_it_is() -> None:
    x, _ = data(8)
    program = noeira.compile(Small, batch=8)
    moving = x.copy()
    program.forward(moving)
    # As NumPy does it for a caller who says that nobody else uses the array.
    moving.resize((80_000, 13), refcheck=False)
    moving.resize((8, 13), refcheck=False)
    moving[...] = 2 * x
    np.testing.assert_array_equal(program.forward(moving), program.forward(2 * x))


def test_results_of_forward_are_the_callers() -> None:
    x, _ = data(20)
    program = noeira.compile(Small, batch=8)
    kept = [program.forward(x[:8]), program.forward(x), program.forward(x[8:16])]
    copies = [array.copy() for array in kept]
    program.forward(x[4:12])
    program.forward(2 * x)
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(kept[1][8:16], kept[2])


def test_programs_of_several_threads_run_at_once_with_the_same_bits() -> None:
    x, y = data(300)

    def trained(results: list[bytes]) -> None:
        program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=300)
        for _ in range(100):
            program.step(x, y)
        results.append(flat(program).tobytes())

    found = list[bytes]()
    workers = [threading.Thread(target=trained, args=(found,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    trained(found)
    assert len(found) == 4 and len(set(found)) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="asks Linux for threads")
def test_units_share_their_threads_which_sleep_when_nothing_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOEIRA_THREADS", "3")
    x, y = data(300)

    def threads_after_a_step(width: int) -> int:
        net = Sequential[LinearReLU[13, width], Linear[width, 5]]
        program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), batch=300)
        program.load(x, y)
        program.steps(3)
        return len(os.listdir("/proc/self/task"))

    assert threads_after_a_step(40) == threads_after_a_step(41)
    time.sleep(0.05)
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.05


def test_a_named_network_is_picklable_with_its_type() -> None:
    assert pickle.loads(pickle.dumps(Small)) is Small


WRONG = [
    (
        lambda p, x, y: p.step(x[:9], y),
        "ShapeError",
        "x has 9 rows; this program was compiled for batch=10",
    ),
    (lambda p, x, y: p.step(x[:, :3], y), "ShapeError", "x has shape (10, 3), it must be (10, 13)"),
    (
        lambda p, x, y: p.step(x.astype("f8"), y),
        "DtypeError",
        "x is float64; this program takes float32: write x.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.step(x, y.astype("f4")),
        "DtypeError",
        "y is float32; it must be integers",
    ),
    (
        lambda p, x, y: p.step(x, np.where(np.arange(10) == 7, 5, y)),
        "DataError",
        "y[7] is 5; it must be from 0 to 4",
    ),
    (lambda p, x, y: p.step(x, y - 9), "DataError", "it must be from 0 to 4"),
    (lambda p, x, y: p.step(x, y.astype("i8") + 2**32), "DataError", "y[0] is 42949672"),
    (lambda p, x, y: p.step([[1.0]], y), "DtypeError", "x is a list, not an array"),
    (
        lambda p, x, y: p.step(x, y.tolist()),
        "DtypeError",
        "y is a list, not an array: write np.asarray(y, np.int32)",
    ),
    (lambda p, x, y: p.step((x, x), y), "ShapeError", "takes 1 input, got 2"),
    (lambda p, x, y: p.forward(x[:0]), "ShapeError", "x has no rows"),
    (lambda p, x, y: p.steps(1), "NoeiraError", "has no data: call load(x, y) first"),
    (
        lambda p, x, y: p.load(x[:5], y[:5]),
        "ShapeError",
        "5 samples are fewer than one batch of 10",
    ),
    (lambda p, x, y: p.load(x, y[:5]), "ShapeError", "y has 5 rows, x has 10"),
    (lambda p, x, y: p.params["9.weight"], "KeyError", "9.weight"),
    (lambda p, x, y: p.params["step"], "KeyError", "there are 0.weight"),
    (lambda p, x, y: p.params.__setitem__("2.bias", x), "ShapeError", "2.bias has shape (5,)"),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", np.zeros(5)),
        "DtypeError",
        "2.bias is float32, not float64, which would be rounded: write value.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", [0, 1, 2, 1e300, 4]),
        "DtypeError",
        "2.bias[3] cannot be 1e+300: float32 has no such number",
    ),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", np.full(5, 2**24 + 1)),
        "DtypeError",
        "2.bias[0] cannot be 16777217: float32 has no such number",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x, y + 9)),
        "DataError",
        "evaluation y[0] is",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x.astype("f8"), y)),
        "DtypeError",
        "evaluation x is float64; this program takes float32: write x.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x, y[:5])),
        "ShapeError",
        "evaluation y has 5 rows, evaluation x has 10",
    ),
    (lambda p, x, y: p.steps(-1), "OptionError", "whole number of at least 1, not -1"),
    (lambda p, x, y: p.steps(1.5), "OptionError", "whole number of at least 1, not 1.5"),
    (lambda p, x, y: setattr(p, "lr", -1), "NoeiraError", "lr must be a finite number"),
    (lambda p, x, y: setattr(p, "lr", float("nan")), "NoeiraError", "lr must be a finite number"),
    (lambda p, x, y: p.load(x, y, evaluation=x), "DataError", "evaluation must be a pair (x, y)"),
]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=[w[2] for w in WRONG])
def test_bad_input_gets_one_clear_message(call, kind: str, message: str, target: str) -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10, target=target)
    error = KeyError if kind == "KeyError" else getattr(noeira, kind)
    with pytest.raises(error) as caught:
        call(program, x, y)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"batch": 2.0}, "batch must be a whole number"),
        ({"target": "gpu"}, "there is no target 'gpu'; there are cpu, cuda, cuda-cpu, reference"),
        ({"optimizer": Adam()}, "an optimizer needs a loss"),
        ({"loss": "ce"}, "loss"),
        ({"dtype": "f16"}, "f32 or f64"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(noeira.NoeiraError) as caught:
        noeira.compile(Small, **options)
    assert message in str(caught.value)


def interrupted(*sizes: int) -> Any:
    """A build that the user ends."""
    raise KeyboardInterrupt


def no_compiler(*sizes: int) -> Any:
    """A build that fails."""
    raise noeira.CompilerError("the compiler failed")


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (noeira.ShapeError, lambda x, y: (x, y[:5])),
        (noeira.DataError, lambda x, y: (x, y + 9)),
        (noeira.ShapeError, lambda x, y: (x[:5], y[:5])),
        (noeira.DtypeError, lambda x, y: (x.astype("f8"), y)),
        (noeira.CompilerError, no_compiler),
        (KeyboardInterrupt, interrupted),
    ],
    ids=["rows", "labels", "too few", "dtype", "compiler", "Ctrl-C"],
)
def test_a_load_that_fails_leaves_the_data_that_was_there(
    error: type[BaseException], change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses(failing: bool) -> list[float]:
        x, y = data(47)
        program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
        program.load(x, y, evaluation=(x[:23], y[:23]))
        found = [program.steps(3)]
        if failing and change in (no_compiler, interrupted):
            with monkeypatch.context() as patched, pytest.raises(error):
                patched.setattr(program, "build_resident", change)
                program.load(x[:30], y[:30])
        elif failing:
            with pytest.raises(error):
                program.load(*change(x, y))
            with pytest.raises(noeira.DataError):
                program.load(x, y, evaluation=(x, y + 9))
        found += [program.steps(4), program.evaluate()["loss"]]
        program.load(x, y)
        return [*found, program.steps(5)]

    assert losses(True) == losses(False)


def test_a_closed_program_says_so() -> None:
    with noeira.compile(Small, batch=1) as program:
        pass
    with pytest.raises(noeira.NoeiraError, match="is closed"):
        program.forward(np.zeros((1, 13), "f4"))


def test_an_open_axis_is_named() -> None:
    with pytest.raises(noeira.CompositionError, match="compile takes a network type"):
        noeira.compile(3)  # type: ignore[arg-type]
    program = noeira.compile(Sequential[Tanh, ReLU], batch=2, input=(3, 4))
    assert program.forward(np.ones((5, 3, 4), "f4")).shape == (5, 3, 4)


class Mix(noeira.nn.Module):
    """tanh(x W + c V): a module of two inputs."""

    A, B, OUT = noeira.nn.size(), noeira.nn.size(), noeira.nn.size()
    left = noeira.nn.Param("A", "OUT")
    right = noeira.nn.Param("B", "OUT")
    signature = "(*, A), (*, B) -> (*, OUT)"

    @classmethod
    def trace(cls, scope: noeira.nn.Scope, x: Any, c: Any) -> Any:
        sums = (scope.emit("linear", v, scope.param(n)) for v, n in ((x, "left"), (c, "right")))
        return scope.emit("tanh", scope.emit("add", *sums))


def test_several_inputs_are_a_tuple() -> None:
    net = Mix[13, 4, 5]
    x, y = data(12)
    c = np.random.default_rng(9).standard_normal((12, 4)).astype("f4")
    program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(lr=1e-2), batch=6)
    expected = np.tanh(x @ program.params["left"] + c @ program.params["right"])
    np.testing.assert_allclose(program.forward((x, c)), expected, atol=1e-5)
    first = program.step((x[:6], c[:6]), y[:6])
    program.load((x, c), y, evaluation=((x, c), y))
    for _ in range(50):
        program.steps(2)
    assert program.evaluate()["loss"] < first
    with pytest.raises(noeira.ShapeError, match=r"takes 2 inputs, got 1: write a tuple \(x0, x1\)"):
        program.step(x[:6], y[:6])
    with pytest.raises(noeira.ShapeError, match="x1 has 11 rows, x0 has 12"):
        program.forward((x, c[:11]))


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
