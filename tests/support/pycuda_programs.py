"""What test_pycuda.py runs in child processes: pycuda's own interface on the fake driver.

`python -m pycuda_programs NAME` runs one function of this module with a context that is current.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from child_programs import Programs, refused

SIZE, BLOCK, GRID = 1000, (256, 1, 1), (4, 1)
BYTES = 4 * SIZE
programs = Programs()


@cache
def unit() -> bytes:
    """The kernels of pycuda_kernels.cu, built for the emulator: what stands for a cubin."""
    from noeira.runtime.cuda_cpu.shared_library import build

    text = Path(__file__).with_name("pycuda_kernels.cu").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        return build(text, Path(folder)).read_bytes()


def numbers() -> np.ndarray:
    """1000 numbers, all different."""
    return np.arange(SIZE, dtype=np.float32) + 1


def device_array(cuda: Any, values: np.ndarray) -> Any:
    """Device memory with these values."""
    memory = cuda.mem_alloc(values.nbytes)
    cuda.memcpy_htod(memory, values)
    return memory


def host_array(cuda: Any, memory: Any, size: int = SIZE) -> np.ndarray:
    """What device memory holds."""
    values = np.empty(size, np.float32)
    cuda.memcpy_dtoh(values, memory)
    return values


def prepared(cuda: Any, name: str, count: int) -> Any:
    """A kernel that takes `count` pointers."""
    function = cuda.module_from_buffer(unit()).get_function(name)
    return function.prepare("P" * count)


@programs(FAKE_CUDA_CAPABILITY="8.6", FAKE_CUDA_MEMORY="123456789", FAKE_CUDA_VERSION="13020")
def the_device_is_what_the_environment_says(cuda: Any) -> None:
    device = cuda.Device(0)
    assert device.compute_capability() == (8, 6)
    assert device.total_memory() == 123456789
    assert cuda.get_driver_version() == 13020
    attribute = cuda.device_attribute
    assert device.get_attribute(attribute.WARP_SIZE) == 32
    assert device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 99 << 10


@programs()
def without_a_current_context_nothing_works(cuda: Any) -> None:
    cuda.Context.pop()
    refused(cuda.LogicError, "invalid device context", cuda.mem_alloc, 4)
    cuda.Device(0).retain_primary_context().push()
    cuda.mem_alloc(4)


@programs()
def memory_is_copied_and_filled(cuda: Any) -> None:
    x = numbers()
    a, b = device_array(cuda, x), cuda.mem_alloc(BYTES)
    assert np.isnan(host_array(cuda, b)).all()
    cuda.memcpy_dtod(b, a, BYTES)
    assert (host_array(cuda, b) == x).all()
    cuda.memset_d32(int(b) + BYTES // 2, 0, SIZE // 2)
    assert (host_array(cuda, b) == np.concatenate([x[: SIZE // 2], np.zeros(SIZE // 2)])).all()


@programs(FAKE_CUDA_MEMORY="10000")
def memory_is_limited(cuda: Any) -> None:
    first = cuda.mem_alloc(6000)
    assert cuda.mem_get_info() == (4000, 10000)
    refused(cuda.MemoryError, "out of memory", cuda.mem_alloc, 4001)
    second = cuda.mem_alloc(4000)
    first.free()
    second.free()
    assert cuda.mem_get_info() == (10000, 10000)


@programs()
def a_copy_that_leaves_an_allocation_is_refused(cuda: Any) -> None:
    memory = cuda.mem_alloc(BYTES)
    for at, count in ((int(memory) + 4, SIZE), (int(memory) - 4, 1), (int(memory), SIZE + 1)):
        values = np.zeros(count, np.float32)
        refused(cuda.LogicError, "invalid argument", cuda.memcpy_htod, at, values)
        refused(cuda.LogicError, "invalid argument", cuda.memcpy_dtoh, values, at)


@programs()
def streams_are_lazy(cuda: Any) -> None:
    stream, out = cuda.Stream(), cuda.pagelocked_zeros(SIZE, np.float32)
    x, factor = device_array(cuda, numbers()), device_array(cuda, np.full(1, 3, np.float32))
    y = cuda.mem_alloc(BYTES)
    prepared(cuda, "scale", 3).prepared_async_call(GRID, BLOCK, stream, x, factor, y)
    cuda.memcpy_dtoh_async(out, y, stream)
    assert not stream.is_done()
    assert (out == 0).all()
    stream.synchronize()
    assert stream.is_done()
    assert (out == 3 * numbers()).all()


@programs()
def pinned_memory_is_read_late_and_other_memory_at_once(cuda: Any) -> None:
    stream, memory = cuda.Stream(), cuda.mem_alloc(BYTES)
    for values, read_late in (
        (cuda.pagelocked_empty(SIZE, np.float32), True),
        (np.empty(SIZE, np.float32), False),
    ):
        values[:] = 1
        cuda.memcpy_htod_async(memory, values, stream)
        values[:] = 2
        stream.synchronize()
        assert (host_array(cuda, memory) == (2 if read_late else 1)).all()


@programs()
def the_null_stream_waits_for_blocking_streams_only(cuda: Any) -> None:
    NON_BLOCKING = 1
    for flags, waited in ((0, True), (NON_BLOCKING, False)):
        stream, memory = cuda.Stream(flags), cuda.mem_alloc(BYTES)
        cuda.memset_d32(memory, 0, SIZE)
        cuda.memset_d32_async(memory, 1, SIZE, stream)
        assert (host_array(cuda, memory).view(np.int32) == waited).all()
        stream.synchronize()


@programs()
def events_order_streams_and_measure(cuda: Any) -> None:
    NON_BLOCKING = 1
    first, second = cuda.Stream(NON_BLOCKING), cuda.Stream(NON_BLOCKING)
    begin, filled, end = cuda.Event(), cuda.Event(), cuda.Event()
    x, factor = cuda.mem_alloc(BYTES), device_array(cuda, np.full(1, 2, np.float32))
    y = cuda.mem_alloc(BYTES)
    begin.record(first)
    cuda.memset_d32_async(x, int(np.float32(4).view(np.int32)), SIZE, first)
    filled.record(first)
    second.wait_for_event(filled)
    prepared(cuda, "scale", 3).prepared_async_call(GRID, BLOCK, second, x, factor, y)
    end.record(second)
    refused(cuda.Error, "device not ready", end.time_since, begin)
    time.sleep(0.01)
    end.synchronize()
    assert begin.query()
    assert 0 < end.time_since(begin) < 10_000
    assert (host_array(cuda, y) == 8).all()


@programs()
def kernels_take_dynamic_shared_memory(cuda: Any) -> None:
    x, y = device_array(cuda, numbers()), cuda.mem_alloc(BYTES)
    function = prepared(cuda, "reverse_block", 2)
    function.prepared_call((1, 1), BLOCK, x, y, shared_size=1024)
    assert (host_array(cuda, y, 256) == numbers()[:256][::-1]).all()


@programs(FAKE_CUDA_CAPABILITY="8.0")
def more_shared_memory_than_usual_has_to_be_asked_for(cuda: Any) -> None:
    x, y = device_array(cuda, numbers()), cuda.mem_alloc(BYTES)
    function = prepared(cuda, "reverse_block", 2)

    def launch() -> None:
        function.prepared_call((1, 1), BLOCK, x, y, shared_size=100 << 10)

    refused(cuda.LogicError, "invalid argument", launch)
    most = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
    refused(cuda.LogicError, "invalid argument", function.set_attribute, most, (163 << 10) + 1)
    function.set_attribute(most, 100 << 10)
    launch()
    assert (host_array(cuda, y, 256) == numbers()[:256][::-1]).all()


@programs()
def launches_that_no_device_takes_are_refused(cuda: Any) -> None:
    y = cuda.mem_alloc(BYTES)
    function = prepared(cuda, "diverge", 1)
    for grid, block in (((1, 1), (1025, 1, 1)), ((0, 1), (1, 1, 1)), ((1, 65536), (1, 1, 1))):
        refused(cuda.LogicError, "invalid argument", function.prepared_call, grid, block, y)
    refused(cuda.LogicError, "named symbol not found", prepared, cuda, "no_such_kernel", 1)


@programs()
def a_failed_launch_ends_the_context(cuda: Any) -> None:
    y, stream = cuda.mem_alloc(BYTES), cuda.Stream()
    prepared(cuda, "diverge", 1).prepared_async_call((1, 1), BLOCK, stream, y)
    refused(cuda.LaunchError, "unspecified launch failure", stream.synchronize)
    refused(cuda.LaunchError, "unspecified launch failure", cuda.mem_alloc, 4)


def cubin_head(architecture: int) -> bytes:
    """The first 64 bytes of a cubin for an architecture: what the driver looks at first."""
    head = bytearray(64)
    head[:9] = b"\x7fELF\x02\x01\x01\x41\x08"
    head[18:20] = (190).to_bytes(2, "little")
    head[48:52] = (architecture << 8).to_bytes(4, "little")
    return bytes(head)


@programs(FAKE_CUDA_CAPABILITY="8.6")
def cubins_are_refused(cuda: Any) -> None:
    for architecture, words in (
        (90, "no kernel image is available"),
        (89, "no kernel image is available"),
        (75, "no kernel image is available"),
        (80, "image is invalid"),
        (86, "image is invalid"),
    ):
        refused(cuda.Error, words, cuda.module_from_buffer, cubin_head(architecture))


@programs()
def what_is_not_there_says_so(cuda: Any) -> None:
    refused(cuda.Error, "not supported", cuda.managed_empty, 10, np.float32)


@programs()
def memory_pools_keep_what_is_freed(cuda: Any) -> None:
    from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

    pool = DeviceMemoryPool()
    block = pool.allocate(BYTES)
    pointer = int(block)
    block.free()
    assert int(pool.allocate(BYTES)) == pointer
    assert PageLockedMemoryPool().allocate((10,), np.float32).shape == (10,)


@programs()
def a_stream_is_captured_through_its_handle(cuda: Any) -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    stream, handle = cuda.Stream(), ctypes.c_void_p()
    handle.value = stream.handle
    x, factor = device_array(cuda, numbers()), device_array(cuda, np.full(1, 2, np.float32))
    scale = prepared(cuda, "scale", 3)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuStreamBeginCapture_v2(handle, 0) == 0
    for _ in range(2):
        scale.prepared_async_call(GRID, BLOCK, stream, x, factor, x)
    assert driver.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert (host_array(cuda, x) == numbers()).all()
    flags = ctypes.c_ulonglong(0)
    assert driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, flags) == 0
    for _ in range(3):
        assert driver.cuGraphLaunch(executable, handle) == 0
    stream.synchronize()
    assert (host_array(cuda, x) == 2**6 * numbers()).all()


def main() -> None:
    """Runs a program with the primary context."""
    import pycuda.driver as cuda

    cuda.init()
    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        programs.main(cuda)
    finally:
        if cuda.Context.get_current():
            cuda.Context.pop()


if __name__ == "__main__":
    main()
