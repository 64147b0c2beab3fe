"""NVIDIA GPUs as devices of programs: the primary context of a GPU, which CUDA's own libraries work
in too, and one stream.

pycuda's errors do not leave this file: each becomes a DeviceError that says what was being done.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.codegen.cuda.arch import OLDEST, arch_name, capability_of
from noeira.errors import DeviceError
from noeira.runtime.cuda.driver import FORKED, require_pycuda, words
from noeira.runtime.device.device import BoundLaunch, Device
from noeira.runtime.fork import Lock
from noeira.runtime.out_of_memory import out_of_memory

if TYPE_CHECKING:
    import numpy as np

# Dynamic shared memory, in bytes, that a kernel may have without asking.
SHARED_BYTES = OLDEST.block_shared

TOOLCHAIN_ADVICE = (
    "if the compiler is of a newer version of CUDA, install a newer driver, or a compiler of the "
    "driver's version in its place, such as nvidia-cuda-nvrtc-cu12 in place of nvidia-cuda-nvrtc"
)
# What the driver says of kernels that it cannot load: of another architecture, or of a compiler
# that is too new for it.
OTHER_ARCH = "no kernel image"
OTHER_TOOLCHAIN = ("device kernel image is invalid", "unsupported toolchain", "PTX JIT")
# What it says when a kernel failed so that every later call of the process fails too. Of these,
# pycuda has its LaunchError only for some.
FATAL = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "invalid program counter",
    "hardware stack error",
    "operation not supported on global/shared address space",
    "device-side assert",
    "launch timed out",
    "unspecified launch failure",
)
_opened: dict[int, CudaDevice] = {}
_mutex = Lock()


def release(context: Any, process: int) -> None:
    """Give a primary context back. pycuda's own destructor does not: it takes the context for one
    of its own. What still lies in the context goes with it, and then calls the driver no more.
    """
    if os.getpid() == process:
        context.detach()


def in_child() -> None:
    """Let no object that a child process has from its parent call the driver, not even when it is
    freed: that fails there, and may end the process. A context that is detached by another thread
    than its own is only marked as gone.
    """
    for device in _opened.values():
        thread = threading.Thread(target=device.context.detach)
        thread.start()
        thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=in_child)


def open_cuda(number: int = 0) -> CudaDevice:
    """A GPU by its number, opened once a process. Raises DeviceError that says what is missing, or
    that the GPU is too old.
    """
    with _mutex:
        if number not in _opened:
            _opened[number] = CudaDevice(number)
        _opened[number].check_process()
        return _opened[number]


class CudaDevice(Device):
    """A GPU. Allocations, copies and launches go to one stream of its primary context."""

    asynchronous = True

    def __init__(self, number: int = 0) -> None:
        self.driver = require_pycuda()
        self.process = os.getpid()
        self.modules: dict[Path, Any] = {}
        count = self.driver.Device.count()
        if number >= count:
            raise DeviceError(f"there is no GPU {number}: there are {count}, from 0 on")
        try:
            gpu = self.driver.Device(number)
            self.name, self.capability = gpu.name(), gpu.compute_capability()
            self.arch = arch_name(self.capability)
            if self.capability < OLDEST.capability:
                raise DeviceError(
                    f"{self.name} is {self.arch}; kernels are for {OLDEST.name} and newer"
                )
            self.context = gpu.retain_primary_context()
            # At exit, after the memory of all programs, which is made later, was given back.
            weakref.finalize(self, release, self.context, self.process)
            with self.session():
                self.stream = self.driver.Stream()
        except self.driver.Error as error:
            raise self.error(error, f"opening GPU {number}") from None

    def check_process(self) -> None:
        """Raises DeviceError in a process that has this device from its parent."""
        if os.getpid() != self.process:
            raise DeviceError(FORKED)

    @contextmanager
    def session(self) -> Iterator[None]:
        self.check_process()
        with self.doing("making the context current"):
            self.context.push()
        try:
            yield
        except BaseException:
            # After a failed kernel this may fail too, but is not what is to be read of.
            with suppress(self.driver.Error):
                self.driver.Context.pop()
            raise
        with self.doing("leaving the context"):
            self.driver.Context.pop()

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Errors of pycuda become DeviceErrors that name what was done."""
        try:
            yield
        except self.driver.Error as error:
            raise self.error(error, what) from None

    def error(self, error: Exception, doing: str) -> Exception:
        if not isinstance(error, self.driver.Error):
            return error
        text = f"{doing} failed on {self.name}: {words(error)}"
        if any(what in text for what in FATAL):
            text += (
                "; nothing more can be done on the GPU in this process. `noeira check MODEL` runs "
                "the kernels on the CPU and finds what they do wrong"
            )
        return DeviceError(text)

    # Memory.

    def take(self, nbytes: int) -> tuple[int, Any]:
        try:
            with self.session():
                allocation = self.driver.mem_alloc(nbytes)
        except self.driver.MemoryError:
            free, total = self.memory()
            raise out_of_memory(self.name, nbytes, free, total) from None
        except self.driver.Error as error:
            raise self.error(error, f"allocating {nbytes} bytes") from None
        return int(allocation), allocation

    def pin(self, nbytes: int) -> tuple[np.ndarray, Any]:
        import numpy as np

        with self.session(), self.doing(f"allocating {nbytes} bytes of page-locked memory"):
            array = self.driver.pagelocked_empty(nbytes, np.uint8)
        # The array is part of what is handed out: what owns its memory is freed, not the array.
        return array, array.base

    def give_back(self, handle: Any) -> None:
        # In a forked process the memory is the parent's. A device that has failed frees nothing.
        if os.getpid() == self.process:
            with suppress(DeviceError, self.driver.Error), self.session():
                handle.free()

    def unpin(self, handle: Any) -> None:
        self.give_back(handle)

    def memory(self) -> tuple[int, int]:
        with self.session(), self.doing("asking for the free memory"):
            return self.driver.mem_get_info()

    # What is done in order.

    def copy_in(self, pointer: int, array: np.ndarray) -> None:
        with self.doing(f"copying {array.nbytes} bytes to the device"):
            self.driver.memcpy_htod_async(pointer, array, self.stream)

    def copy_out(self, array: np.ndarray, pointer: int) -> None:
        with self.doing(f"copying {array.nbytes} bytes from the device"):
            self.driver.memcpy_dtoh_async(array, pointer, self.stream)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        with self.doing(f"copying {nbytes} bytes on the device"):
            self.driver.memcpy_dtod_async(to, source, nbytes, self.stream)

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        with self.doing(f"filling {nbytes} bytes"):
            self.driver.memset_d8_async(pointer, byte, nbytes, self.stream)

    def load(self, path: Path, arch: str = "") -> Any:
        if path in self.modules:
            return self.modules[path]
        if arch and capability_of(arch) > self.capability:
            raise DeviceError(
                f"the kernels in {path} were compiled for {arch}; {self.name} is {self.arch}: "
                f"compile them for that"
            )
        with self.session():
            try:
                module = self.driver.module_from_buffer(path.read_bytes())
            except self.driver.Error as error:
                raise self.load_error(error, path, arch) from None
        self.modules[path] = module
        return module

    def load_error(self, error: Exception, path: Path, arch: str) -> Exception:
        """What to raise for a unit, built for `arch`, that the driver does not take."""
        text = words(error)
        too_new = any(what in text for what in OTHER_TOOLCHAIN)
        if not too_new and OTHER_ARCH not in text:
            return self.error(error, f"loading {path}")
        built = f"were compiled for {arch}" if arch else "are for another architecture"
        text = f"{self.name} ({self.arch}) cannot run the kernels in {path}, which {built}: {text}"
        if too_new:
            version = self.driver.get_driver_version()
            text += f"; the driver is for CUDA {version // 1000}.{version % 1000 // 10}: "
            text += TOOLCHAIN_ADVICE
        return DeviceError(text)

    def launcher(self, module: Any, launch: BoundLaunch) -> Callable[[], object]:
        with self.doing(f"getting the kernel {launch.kernel}"):
            function = module.get_function(launch.kernel)
            if launch.shared > SHARED_BYTES:
                attribute = self.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                function.set_attribute(attribute, launch.shared)
            function.prepare("P" * len(launch.arguments))
        grid, block = (launch.grid, 1, 1), (launch.block, 1, 1)
        return partial(
            function.prepared_async_call,
            grid,
            block,
            self.stream,
            *launch.pointers,
            shared_size=launch.shared,
        )

    def record(self) -> Any:
        with self.doing("recording an event"):
            return self.driver.Event().record(self.stream)

    def elapsed(self, first: Any, last: Any) -> float:
        with self.doing("reading events"):
            last.synchronize()
            return 1e-3 * last.time_since(first)

    def synchronize(self) -> None:
        with self.doing("running kernels"):
            self.stream.synchronize()
