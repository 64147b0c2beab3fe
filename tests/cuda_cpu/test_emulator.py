"""CUDA kernels on the CPU: what they compute, in any order, and what is said of mistakes."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from needs import needs_cxx

from noeira.errors import CompilerError, DeviceError, KernelFault
from noeira.runtime.build import compiler_search
from noeira.runtime.cuda_cpu import shared_library
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler, require_cxx_compiler
from noeira.runtime.cuda_cpu.module import CudaCpuModule, Region
from noeira.runtime.cuda_cpu.shared_library import build
from noeira.runtime.cuda_cpu.text import find_kernels, host_text

TEXT = (Path(__file__).parents[1] / "support" / "emulator_kernels.cu").read_text(encoding="utf-8")
ORDERS = [("forward", 0), ("reverse", 0), ("random", 1), ("random", 2)]

pytestmark = needs_cxx


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulator")


def made(text: str, folder: Path, check: bool = False) -> CudaCpuModule:
    """A unit built in a folder of its own."""
    path = folder / f"unit{len(list(folder.iterdir()))}"
    path.mkdir()
    return CudaCpuModule(build(text, path, check))


@pytest.fixture(scope="module")
def fast(folder: Path) -> CudaCpuModule:
    return made(TEXT, folder)


@pytest.fixture(scope="module")
def checked(folder: Path) -> CudaCpuModule:
    return made(TEXT, folder, check=True)


@pytest.fixture(params=["fast", "checked"])
def unit(request: pytest.FixtureRequest) -> CudaCpuModule:
    return request.getfixturevalue(request.param)


@cache
def line_of(mark: str) -> int:
    """The line of the kernels' text that is marked."""
    return next(
        n for n, line in enumerate(TEXT.splitlines(), 1) if line.endswith(f"// here {mark}")
    )


def floats(count: int, seed: int = 0) -> np.ndarray:
    """Random numbers whose address is a multiple of 64 bytes."""
    space = np.empty(count + 16, np.float32)
    array = space[-(space.ctypes.data // 4) % 16 :][:count]
    array[:] = np.random.default_rng(seed).standard_normal(count)
    return array


def run(
    unit: CudaCpuModule,
    name: str,
    grid: int,
    block: int,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[np.ndarray],
    shared: int = 0,
    order: str = "forward",
    seed: int = 0,
    initialised: bool = False,
) -> list[Region]:
    """Launch with inputs that may only be read and outputs that are to be written; gives these."""
    reads = [
        Region(a.ctypes.data, a.nbytes, f"a{i}", writable=False)
        for i, a in enumerate(inputs)
        if a is not None
    ]
    writes = [
        Region(y.ctypes.data, y.nbytes, f"y{i}", initialised, granule=y.itemsize)
        for i, y in enumerate(outputs)
    ]
    pointers = [None if a is None else a.ctypes.data for a in (*inputs, *outputs)]
    unit.launch(name, grid, block, shared, pointers, order, seed, [*reads, *writes])
    return writes


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


def tells_line(fault: KernelFault, line: int) -> bool:
    """Whether a launch's faults name a line: of a race, either of the two."""
    faults = (fault, *fault.others)
    return any(f.line == line or f"line {line};" in f.text for f in faults)


# Kernel, kind, inputs, whether fast mode finds it too, words of its text.
MISTAKES = [
    ("race_in_block", "race", 0, False, "writes dynamic shared memory at byte"),
    ("race_in_warp", "race", 0, False, "there is no barrier between"),
    ("race_of_blocks", "race", 0, False, "blocks have no order"),
    ("race_after_reads", "race", 0, False, "shared memory at byte 0, which thread 0 wrote"),
    ("race_with_atomic", "race", 0, False, "total at byte 0, which thread"),
    ("race_with_start", "race", 0, False, "changes local at byte 0, which thread 0 wrote at"),
    ("beyond", "out of bounds", 1, False, "0 bytes after the end of a0, which has 256 bytes"),
    (
        "before",
        "out of bounds",
        0,
        False,
        "writes 4 bytes that begin 4 bytes before the start of y0",
    ),
    ("beyond_shared", "out of bounds", 0, False, "0 bytes after the end of dynamic shared memory"),
    (
        "beyond_array",
        "out of bounds",
        0,
        False,
        "index 64 is outside an array of type 'float [64]'",
    ),
    (
        "beyond_wide",
        "out of bounds",
        1,
        False,
        f"in a function it calls, at line {line_of('load4')}",
    ),
    ("beyond_local", "out of bounds", 0, False, "index 4 is outside an array of type 'float [4]'"),
    ("through_null", "out of bounds", -1, False, "writes 4 bytes through NULL"),
    ("unwritten_shared", "uninitialised", 0, False, "reads 4 bytes at byte 252 of dynamic shared"),
    ("unwritten_output", "uninitialised", 0, False, "of y0, which nobody wrote"),
    ("writes_input", "read-only", 1, False, "of a0, which the kernel may only read"),
    ("misaligned", "misaligned", 1, True, "8 bytes past a multiple of 16"),
    ("diverges", "divergence", 0, True, "waits at a barrier, but thread"),
    ("never_shuffled", "deadlock", 0, True, "which waits in __syncthreads at line"),
    ("not_in_mask", "divergence", 0, True, "with mask 0x0000ffff, in which its own lane"),
    ("asserts", "assertion", 0, True, "threadIdx.x < 60 is false"),
    ("mixed_masks", "divergence", 0, True, "of its warp waits in __"),
]


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


def test_a_compilers_message_has_the_texts_own_lines(folder: Path):
    broken = TEXT.replace("float sums[4] = {};", "float sums[4] = oops;")
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if "oops" in text)
    with pytest.raises(CompilerError, match=rf"unit\.cu cannot be built:\n(.*\n)*unit\.cu:{line}:"):
        made(broken, folder)


def test_variables_that_have_no_room_on_a_stack_are_refused(folder: Path):
    text = (
        'extern "C" __global__ void k(float *x) {\n'
        "    float big[40000];\n"
        "    for (int i = 0; i < 40000; i++) big[i] = x[i % 64];\n"
        "    __syncthreads();\n"
        "    x[threadIdx.x] = big[threadIdx.x * 100];\n"
        "}\n"
    )
    with pytest.raises(CompilerError, match=r"unit\.cu:\d+:.*frame size .*160\d{3}"):
        build(text, folder)


def test_a_compiler_that_cannot_check_is_told_so(folder: Path):
    compiler = replace(require_cxx_compiler(), check_flags=())
    with pytest.raises(CompilerError, match="cannot mark memory accesses"):
        build(TEXT, folder, check=True, compiler=compiler)


def test_kernels_are_found_however_they_are_written():
    text = """
    // extern "C" __global__ void commented(float *x) {}
    const char *s = "extern \\"C\\" __global__ void quoted(float *x) { }";
    #define KERNEL(n) extern "C" __global__ void n() { if (1) {
    __global__ void with_mangled_name(float *x) { *x = 0; }
    extern "C" __global__ void declared(float *x);
    template <int N> __global__ void of_a_template(float *x) { *x = N; }
    extern "C"   __global__
      /* why not */ void  __launch_bounds__ (128,
        2) spread // here
      (float *x) { if (*x > 0) { *x = 0; } }
    extern "C" { static int helper() { return 1; }
    __launch_bounds__(32) __global__ static void inside(float *x) { for (;;) { } }
    struct S { int a; };
    }
    extern "C" __attribute__((used)) __global__ void last() {}
    """
    assert find_kernels(text) == ("spread", "inside", "last")


def test_dynamic_shared_memory_is_found_however_it_is_written():
    text = """extern __shared__ float a[];
    extern __align__(16) __shared__ unsigned char b[ ], c[];
    void f() { extern __shared__ __align__(16)
      double d[]; __shared__ float e[3]; }
    // extern __shared__ float g[];"""
    host = host_text(text, "a.cu").text
    assert host.count('__asm__("noeira_dynamic")') == 4
    assert "double d[] __asm__" in host
    assert host.splitlines()[1:6] and len(host.splitlines()) == len(text.splitlines()) + 2


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


def test_the_portable_switch(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_library, "RUNTIME_FLAGS", ("-O2", "-DNOEIRA_PORTABLE"))
    unit = made(TEXT, folder, check=True)
    for order, seed in ORDERS:
        a, b, c = floats(4096), floats(4096, 1), floats(4096, 2)
        run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4, order=order, seed=seed)
        exact = a.reshape(64, 64).astype(np.float64) @ b.reshape(64, 64)
        np.testing.assert_allclose(c.reshape(64, 64), exact, rtol=1e-4, atol=1e-5)
        with pytest.raises(KernelFault, match="out of bounds"):
            run(unit, "beyond", 1, 64, [floats(64)], [floats(64)], order=order, seed=seed)


@pytest.mark.parametrize("name", ["clang++", pytest.param("zig", marks=pytest.mark.slow)])
def test_other_compilers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import importlib.util
    import sys

    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("ziglang is not installed")
        monkeypatch.setenv("CXX", f"{sys.executable} -m ziglang c++")
    elif shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    else:
        monkeypatch.setenv("CXX", name)
    unit = made(TEXT, tmp_path, check=True)
    a, b, c = floats(4096), floats(4096, 1), floats(4096, 2)
    run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4)
    for mistake, kind, *_ in MISTAKES:
        if mistake == "misaligned":
            continue  # clang looks at members of a structure, not at copies of all of it
        given = [None] if mistake == "through_null" else [floats(64)] * (mistake in TAKES_INPUT)
        grid = 2 if mistake == "race_of_blocks" else 1
        with pytest.raises(KernelFault) as caught:
            run(unit, mistake, grid, 64, given, [floats(64)], 256)
        assert caught.value.kind == kind, caught.value
        assert tells_line(caught.value, line_of(mistake)), caught.value


TAKES_INPUT = {name for name, _, inputs, *_ in MISTAKES if inputs == 1}


def test_the_identity_tells_runtimes_apart(monkeypatch: pytest.MonkeyPatch):
    compiler = find_cxx_compiler()
    assert compiler is not None
    first = shared_library.cuda_cpu_identity(compiler)
    monkeypatch.setattr(shared_library, "FAST_FLAGS", ("-O0",))
    assert shared_library.cuda_cpu_identity(compiler) != first


def test_no_compiler_and_a_useless_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "noeira-no-such-compiler -x")
    with pytest.raises(CompilerError, match="there is no program noeira-no-such-compiler"):
        require_cxx_compiler()
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(CompilerError, match="CXX is false, which cannot be used"):
        require_cxx_compiler()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler_search, "ziglang_program", lambda: None)
    assert find_cxx_compiler() is None
    with pytest.raises(CompilerError) as caught:
        require_cxx_compiler()
    for words in ("no C++ compiler was found", "apt install g++", "pip install ziglang", "CXX"):
        assert words in str(caught.value)
