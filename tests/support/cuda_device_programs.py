"""What test_pycuda.py runs in child processes: noeira's device of target `cuda` on the fake driver.

`python -m cuda_device_programs NAME` runs one function of this module.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import tempfile
import threading
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from child_programs import Programs, refused
from pycuda_programs import SIZE, cubin_head, numbers, unit

from noeira.__main__ import main
from noeira.errors import DeviceError, DeviceMemoryError
from noeira.runtime.cuda.device import open_cuda
from noeira.runtime.cuda.driver import found_devices
from noeira.runtime.device.device import Argument, BoundLaunch, Memory, Pinned

BYTES = 4 * SIZE
programs = Programs()


def file_of(contents: bytes) -> Path:
    """A file with these bytes."""
    path = Path(tempfile.mkdtemp()) / "unit.cubin"
    path.write_bytes(contents)
    return path


def launch_of(kernel: str, *memories: Memory, grid: int = 4, shared: int = 0) -> BoundLaunch:
    """A launch of a kernel of pycuda_kernels.cu."""
    arguments = [Argument(f"x{i}", "output", m.pointer, m.nbytes) for i, m in enumerate(memories)]
    return BoundLaunch(kernel, grid, 256, shared, tuple(arguments))


def device_memory(device: Any, values: np.ndarray) -> Memory:
    """Memory of a device that will have these values."""
    memory = Memory(device, values.nbytes)
    device.copy_in(memory.pointer, values)
    return memory


def doctor() -> str:
    """What `noeira doctor` says of pycuda, the driver and GPUs."""
    out = io.StringIO()
    with redirect_stdout(out):
        main(["doctor"])
    text = out.getvalue()
    return text[text.index("pycuda ") :]


# What can be missing.


@programs(pycuda=False)
def without_pycuda() -> None:
    refused(DeviceError, "pycuda is not installed", open_cuda)
    assert "pycuda is not installed" in doctor()


@programs(driver=False)
def without_a_driver() -> None:
    refused(DeviceError, "there is no NVIDIA driver", open_cuda)
    assert "there is no NVIDIA driver" in doctor()


@programs(FAKE_CUDA_INIT="803")
def with_a_driver_that_does_not_start() -> None:
    words = "does not start: cuInit failed: system has unsupported display driver"
    refused(DeviceError, words, open_cuda)
    assert words in doctor()


@programs(FAKE_CUDA_DEVICES="0")
def without_a_device() -> None:
    refused(DeviceError, "no NVIDIA GPU that it can use", open_cuda)
    refused(DeviceError, "no NVIDIA GPU that it can use", found_devices)
    assert "no NVIDIA GPU that it can use" in doctor()


@programs(FAKE_CUDA_DEVICES="2", FAKE_CUDA_CAPABILITY="8.9")
def devices_are_counted() -> None:
    assert [(found.number, found.arch) for found in found_devices()] == [(0, "sm_89"), (1, "sm_89")]
    refused(DeviceError, "there is no GPU 2: there are 2", open_cuda, 2)
    assert "GPU 1         noeira emulated device, sm_89, 1.07 GB" in doctor()


@programs(FAKE_CUDA_CAPABILITY="7.0")
def an_old_device_is_refused() -> None:
    refused(DeviceError, "is sm_70; kernels are for sm_75 and newer", open_cuda)
    assert "sm_70, 1.07 GB: older than sm_75" in doctor()


# What can be wrong.


@programs(FAKE_CUDA_CAPABILITY="8.6")
def kernels_for_another_architecture_are_refused() -> None:
    device, path = open_cuda(), file_of(cubin_head(75))
    for arch in ("", "sm_75", "sm_90"):
        error = refused(DeviceError, "sm_86", device.load, path, arch)
        assert arch in str(error)
        assert str(path) in str(error)


@programs(FAKE_CUDA_VERSION="12040")
def a_compiler_newer_than_the_driver_is_named() -> None:
    device, path = open_cuda(), file_of(b"")
    for said in (
        "device kernel image is invalid - ",
        "the provided PTX was compiled with an unsupported toolchain. - ",
    ):
        raised = device.driver.LogicError(f"cuModuleLoadDataEx failed: {said}")
        error = str(device.load_error(raised, path, "sm_90"))
        assert said.removesuffix(" - ") in error, error
        assert "compiled for sm_90" in error, error
        assert "the driver is for CUDA 12.4" in error, error


@programs()
def errors_that_end_the_context_say_so() -> None:
    device = open_cuda()
    for raised, fatal in (
        (device.driver.LogicError("an illegal memory access was encountered"), True),
        (device.driver.LogicError("misaligned address"), True),
        (device.driver.LaunchError("the launch timed out and was terminated"), True),
        (device.driver.LaunchError("too many resources requested for launch"), False),
        (device.driver.LogicError("invalid argument"), False),
    ):
        error = str(device.error(raised, "running kernels"))
        assert error.startswith("running kernels failed on"), error
        assert ("nothing more can be done" in error) == fatal, error


@programs(FAKE_CUDA_MEMORY="10000000")
def memory_runs_out() -> None:
    device = open_cuda()
    kept = Memory(device, 4_000_000)
    error = refused(DeviceMemoryError, "out of memory", Memory, device, 7_000_000)
    assert (error.asked, error.free, error.total) == (7_000_000, 6_000_000, 10_000_000)
    assert "asked for 7.00 MB, 6.00 MB of 10.00 MB are free" in str(error)
    del kept
    gc.collect()
    assert device.memory() == (10_000_000, 10_000_000)
    Memory(device, 7_000_000)


@programs()
def a_copy_out_of_bounds_is_an_error() -> None:
    device = open_cuda()
    memory = Memory(device, BYTES)
    with device.session():
        refused(DeviceError, "failed on", device.copy_in, memory.pointer + 4, numbers())
        refused(DeviceError, "failed on", device.copy_out, numbers(), memory.pointer + 4)


@programs()
def a_kernel_that_is_not_there_is_an_error() -> None:
    device = open_cuda()
    module = device.load(file_of(unit()))
    with device.session():
        refused(DeviceError, "no_such_kernel", device.launcher, module, launch_of("no_such_kernel"))


@programs()
def a_failed_launch_says_so_ever_after() -> None:
    device = open_cuda()
    memory = Memory(device, BYTES)
    module = device.load(file_of(unit()))
    with device.session():
        device.launcher(module, launch_of("diverge", memory, grid=1))()
        error = refused(DeviceError, "unspecified launch failure", device.synchronize)
        assert "noeira check" in str(error)
    refused(DeviceError, "unspecified launch failure", Memory, device, 4)
    memory.close()


@programs()
def a_forked_process_may_not_use_it() -> None:
    device = open_cuda()
    memory = Memory(device, BYTES)
    child = os.fork()
    if child == 0:
        try:
            refused(DeviceError, "forked", open_cuda)
            refused(DeviceError, "forked", Memory, device, 4)
            memory.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with device.session():
        device.copy_in(memory.pointer, numbers())
        device.synchronize()


@programs()
def a_forked_process_ends_like_another() -> None:
    device = open_cuda()
    kept = Memory(device, BYTES), Pinned(device, BYTES), device.load(file_of(unit()))
    child = os.fork()
    if child == 0:
        # All that it has of its parent is freed.
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert kept[0].pointer


@programs()
def the_thread_that_opened_it_may_be_gone() -> None:
    kept = list[Any]()

    def work() -> None:
        device = open_cuda()
        kept.append((Memory(device, BYTES), Pinned(device, BYTES), device.load(file_of(unit()))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert open_cuda().memory()[0] == open_cuda().memory()[1] - BYTES


# What works.


@programs()
def values_make_the_round() -> None:
    device, out = open_cuda(), np.empty(SIZE, np.float32)
    pinned = Pinned(device, BYTES)
    pinned.array.view(np.float32)[:] = numbers()
    a, b = Memory(device, BYTES), Memory(device, BYTES)
    with device.session():
        device.copy_in(a.pointer, pinned.array)
        device.copy(b.pointer, a.pointer, BYTES)
        device.fill(b.pointer, 0, BYTES // 2)
        pinned.array[:] = 0
        device.copy_out(out, b.pointer)
        device.synchronize()
    # The pinned memory was changed before the copy was made, as it was not waited for.
    assert (out == 0).all()
    with device.session():
        device.copy_in(a.pointer, numbers())
        device.copy_out(pinned.array, a.pointer)
        assert (pinned.array == 0).all()
        device.synchronize()
    assert (pinned.array.view(np.float32) == numbers()).all()


@programs()
def kernels_run_and_are_timed() -> None:
    device, out = open_cuda(), np.empty(SIZE, np.float32)
    module = device.load(file_of(unit()), "sm_90")
    with device.session():
        x, factor = (
            device_memory(device, numbers()),
            device_memory(device, np.full(1, 3, np.float32)),
        )
        y = Memory(device, BYTES)
        launch = device.launcher(module, launch_of("scale", x, factor, y))
        first = device.record()
        launch()
        last = device.record()
        assert 0 < device.elapsed(first, last) < 10
        device.copy_out(out, y.pointer)
        device.synchronize()
    assert (out == 3 * numbers()).all()


@programs(FAKE_CUDA_CAPABILITY="8.0")
def much_shared_memory_is_asked_for() -> None:
    device, out = open_cuda(), np.empty(256, np.float32)
    module = device.load(file_of(unit()))
    with device.session():
        x, y = device_memory(device, numbers()), Memory(device, BYTES)
        device.launcher(module, launch_of("reverse_block", x, y, grid=1, shared=160 << 10))()
        device.copy_out(out, y.pointer)
        device.synchronize()
        launch = launch_of("reverse_block", x, y, grid=1, shared=164 << 10)
        refused(DeviceError, "reverse_block", device.launcher, module, launch)
    assert (out == numbers()[:256][::-1]).all()


@programs()
def other_threads_may_use_it() -> None:
    device, found = open_cuda(), list[float]()
    memory = Memory(device, BYTES)

    def work() -> None:
        out = np.empty(SIZE, np.float32)
        with device.session(), device.session():
            device.copy_in(memory.pointer, numbers())
            device.copy_out(out, memory.pointer)
            device.synchronize()
        found.append(float(out.sum()))
        memory.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [float(numbers().sum())]
    assert device.memory()[0] == device.memory()[1]


if __name__ == "__main__":
    programs.main()
