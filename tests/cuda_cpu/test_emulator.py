"""CUDA kernels on the CPU: what they compute, in any order, and what is said of mistakes."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from emulated_units import MISTAKES, ORDERS, TEXT, floats, line_of, made, run, tells_line
from needs import needs_cxx

from noeira.errors import DeviceError, KernelFault
from noeira.runtime.cuda_cpu.module import CudaCpuModule, Region

pytestmark = needs_cxx


@pytest.mark.parametrize(("order", "seed"), ORDERS)
def test_clean_kernels_compute_the_same_in_every_order(unit: CudaCpuModule, order: str, seed: int):
    x, y = floats(1000), floats(1000, 1)
    expected = (x.astype(np.float64) * 2 + y).astype(np.float32)
    run(unit, "axpy", 4, 256, [x], [y], order=order, seed=seed, initialised=True)
    assert np.array_equal(y, expected)

    x, sums = floats(700), floats(7)
    (region,) = run(unit, "row_sums", 7, 64, [x], [sums], order=order, seed=seed)
    np.testing.assert_allclose(sums, x.reshape(7, 100).sum(1), rtol=1e-4, atol=1e-5)
    assert region.never_written() == ([] if unit.checks else [range(7)])

    a, b, c = floats(4096), floats(4096, 1), floats(4096, 2)
    run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4, order=order, seed=seed)
    exact = a.reshape(64, 64).astype(np.float64) @ b.reshape(64, 64)
    np.testing.assert_allclose(c.reshape(64, 64), exact, rtol=1e-4, atol=1e-5)

    values = np.arange(1000, dtype=np.int32) ** 2 % 101
    counts = np.zeros(16, np.uint32)
    run(unit, "histogram", 1, 96, [values], [counts], order=order, seed=seed, initialised=True)
    assert np.array_equal(counts, np.bincount(values & 15, minlength=16))

    data, mixed = np.arange(64, dtype=np.uint8), np.zeros(64)
    run(unit, "mixed", 1, 100, [data], [mixed], order=order, seed=seed)
    lanes = np.arange(64)
    assert np.array_equal(mixed, 0.5 + (lanes ^ 1) + (lanes & 3) + 1)


def test_bits_do_not_depend_on_order_or_mode(fast: CudaCpuModule, checked: CudaCpuModule):
    a, b = floats(4096), floats(4096, 1)
    results = list[bytes]()
    for unit in (fast, checked):
        for order, seed in ORDERS:
            c = floats(4096)
            run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4, order=order, seed=seed)
            results.append(c.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize(("order", "seed"), ORDERS)
def test_intrinsics(unit: CudaCpuModule, order: str, seed: int):
    y = np.zeros((32, 16), np.uint32)
    run(unit, "intrinsics", 1, 32, [], [y], order=order, seed=seed, initialised=True)
    lane = np.arange(32)
    bits = np.array([n.bit_length() for n in range(32)])
    low = np.array([(n & -n).bit_length() for n in range(32)])
    expected = [
        np.full(32, 5),
        np.where(lane < 3, lane, lane - 3),
        np.where(lane % 8 > 4, lane, lane + 3),
        lane ^ 7,
        np.full(32, sum(1 << n for n in range(0, 32, 3))),
        np.full(32, 1),
        np.full(32, 31 * 16 - 9),
        (lane << 28 & 0xFFFFFFFF) * 256 // 2**32
        + [n.bit_count() for n in range(32)]
        + 32
        - bits
        + low,
        lane + (lane << 6),
        np.minimum(lane, 7) + np.maximum(lane, 20) + np.rint(lane * 0.5).astype(int) + 2,
        lane ^ 1,
        np.where(lane < 16, 0xFFFF, 0xFFFF0000),
        np.full(32, 1),
        np.full(32, 6 + 4 + 32 + 1 + 32),
        np.full(32, 0 + 9 + 11),
        np.full(32, 1),
    ]
    for column, values in enumerate(expected):
        assert np.array_equal(y[:, column], values), column


@pytest.mark.parametrize(("order", "seed"), ORDERS)
@pytest.mark.parametrize(("name", "kind", "inputs", "always", "words"), MISTAKES)
def test_mistakes_are_found_on_their_line(
    request: pytest.FixtureRequest,
    name: str,
    kind: str,
    inputs: int,
    always: bool,
    words: str,
    order: str,
    seed: int,
):
    for unit in ("fast", "checked") if always else ("checked",):
        given = [None] if inputs < 0 else [floats(64)] * inputs
        grid = 2 if name == "race_of_blocks" else 1
        with pytest.raises(KernelFault) as caught:
            run(
                request.getfixturevalue(unit), name, grid, 64, given, [floats(64)], 256, order, seed
            )
        faults = (caught.value, *caught.value.others)
        assert {fault.kind for fault in faults} == {kind}, caught.value
        if order == "forward" or not always:
            assert tells_line(caught.value, line_of(name)), caught.value
        if order == "forward":
            assert words in caught.value.text
        assert caught.value.kernel == name
        assert caught.value.block < grid
        assert caught.value.thread < 64


def test_a_fault_can_be_read_and_pickled(checked: CudaCpuModule):
    with pytest.raises(KernelFault) as caught:
        run(checked, "beyond", 1, 64, [floats(64)], [floats(64)])
    fault = caught.value
    assert (fault.block, fault.thread, fault.others) == (0, 63, ())
    assert str(fault) == (
        f"out of bounds in beyond at line {line_of('beyond')}, block 0, thread 63: reads 4 bytes "
        "that begin 0 bytes after the end of a0, which has 256 bytes"
    )
    again = pickle.loads(pickle.dumps(fault))
    assert str(again) == str(fault)
    assert isinstance(fault, DeviceError)


def test_several_faults_are_told_at_once(checked: CudaCpuModule):
    with pytest.raises(KernelFault) as caught:
        run(checked, "two_mistakes", 1, 64, [floats(64)], [floats(64)], 256)
    found = {(f.kind, f.line) for f in (caught.value, *caught.value.others)}
    assert ("out of bounds", line_of("second")) in found
    assert f"line {line_of('two_mistakes')};" in str(caught.value)


def test_what_was_never_written_is_known(checked: CudaCpuModule):
    (region,) = run(checked, "half_written", 1, 64, [], [floats(64)])
    assert region.never_written() == [range(i, i + 1) for i in range(1, 64, 2)]


def test_written_memory_stays_so_from_launch_to_launch(checked: CudaCpuModule):
    y = floats(64)
    region = Region(y.ctypes.data, y.nbytes, "workspace", initialised=False)
    with pytest.raises(KernelFault, match="uninitialised"):
        checked.launch("unwritten_output", 1, 64, 0, [y.ctypes.data], regions=[region])
    region = Region(y.ctypes.data, y.nbytes, "workspace", initialised=False)
    x = floats(128)
    checked.launch(
        "beyond", 1, 64, 0, [x.ctypes.data, y.ctypes.data],
        regions=[region, Region(x.ctypes.data, x.nbytes, "x")],
    )  # fmt: skip
    checked.launch("unwritten_output", 1, 64, 0, [y.ctypes.data], regions=[region])


def test_an_output_in_the_place_of_an_input(checked: CudaCpuModule):
    y = floats(1000)
    expected = y * 3
    region = Region(y.ctypes.data, y.nbytes, "y")
    checked.launch("axpy", 4, 256, 0, [y.ctypes.data] * 2, regions=[region])
    np.testing.assert_array_equal(y, expected)


def test_without_regions_any_memory_may_be_touched(checked: CudaCpuModule):
    x, y = floats(65), floats(64)
    checked.launch("beyond", 1, 64, 0, [x.ctypes.data, y.ctypes.data])
    with pytest.raises(KernelFault, match="race"):
        checked.launch("race_in_block", 1, 64, 256, [y.ctypes.data])


def test_bad_launches_are_refused(unit: CudaCpuModule):
    with pytest.raises(DeviceError, match=r"there is no kernel nothing in .*unit\.so"):
        unit.launch("nothing", 1, 1, 0, [])
    with pytest.raises(DeviceError, match="the kernel axpy has 2 arguments, not 1"):
        unit.launch("axpy", 1, 1, 0, [None])
    for grid, block, shared, words in [
        (1, 1025, 0, "1 to 1024 threads"),
        (0, 32, 0, "2147483647 x 65535 x 65535 blocks"),
        (1, 32, 232449, "232448 bytes of shared memory at most"),
    ]:
        with pytest.raises(DeviceError, match=f"axpy cannot be launched: launch: .*{words}"):
            unit.launch("axpy", grid, block, shared, [None, None])


def test_two_units_and_two_threads(fast: CudaCpuModule, folder: Path):
    other = made(TEXT.replace("2.0f, y[i]", "5.0f, y[i]"), folder)
    failed = list[int]()

    def work(unit: CudaCpuModule, factor: int) -> None:
        for n in range(20):
            x, y = floats(1000, n), np.zeros(1000, np.float32)
            unit.launch("axpy", 4, 256, 0, [x.ctypes.data, y.ctypes.data])
            if not np.array_equal(y, x * np.float32(factor)):
                failed.append(factor)

    threads = [threading.Thread(target=work, args=a) for a in [(fast, 2), (other, 5), (fast, 2)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_speed(fast: CudaCpuModule, folder: Path):
    text = """extern "C" __global__ void twice(const float *x, float *y) {
        const int i = blockIdx.x * 256 + threadIdx.x;
        y[i] = x[i] * 2.0f;
    }"""
    unit = made(text, folder)
    x, y = floats(1 << 20), floats(1 << 20)
    seconds = list[float]()
    for _ in range(5):
        start = time.perf_counter()
        unit.launch("twice", 4096, 256, 0, [x.ctypes.data, y.ctypes.data])
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.060, "a million threads without barriers need no switches"
