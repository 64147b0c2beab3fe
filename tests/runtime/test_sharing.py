"""Programs that share memory, threads and processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from program_networks import Small, Wide, data, flat

import noeira
from noeira.nn import (
    SGD,
    Adam,
    CrossEntropy,
    Linear,
    LinearReLU,
    Sequential,
)


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
