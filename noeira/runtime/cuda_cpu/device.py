"""The device of target `cuda-cpu`: memory of the host, and kernels that the CPU runs to their end
when they are launched.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.runtime.device.device import BoundLaunch, Device
from noeira.runtime.out_of_memory import host_memory, out_of_host_memory

if TYPE_CHECKING:
    import numpy as np

    from noeira.codegen.cuda.arch import Arch
    from noeira.runtime.cuda_cpu.checked_launches import Report

# Like memory of a GPU, whose allocations begin at multiples of this.
ALIGNMENT = 256
# What new memory holds in check mode: numbers made of it are NaN.
POISON = 0xFF


class CudaCpuDevice(Device):
    """Threads of a launch run in an order: `forward`, `reverse`, or `random` by a seed.

    check: units are built in check mode, and each launch is told what it may touch; what it does
    wrong is raised as KernelFault, or handed to `report`, after which the next launch runs.
    """

    name, arch, asynchronous = "the CPU", "cpu", False

    def __init__(
        self,
        order: str = "forward",
        seed: int = 0,
        check: bool = False,
        report: Report | None = None,
    ) -> None:
        self.order, self.seed = order, seed
        self.checked = None
        if check:
            from noeira.runtime.cuda_cpu.checked_launches import CheckedLaunches

            self.checked = CheckedLaunches(order, seed, report)

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def take(self, nbytes: int) -> tuple[int, Any]:
        import numpy as np

        try:
            room = np.empty(nbytes + ALIGNMENT, np.uint8)
        except MemoryError:
            raise out_of_host_memory(nbytes) from None
        if self.checked is not None:
            room.fill(POISON)
        start = room.ctypes.data
        return start + -start % ALIGNMENT, room

    def give_back(self, handle: Any) -> None:
        """Nothing: the memory goes with the handle."""

    def pin(self, nbytes: int) -> tuple[np.ndarray, Any]:
        from noeira.ir.types import TensorType
        from noeira.runtime.store import aligned_zeros

        return aligned_zeros(TensorType("u8", (nbytes,))), None

    def unpin(self, handle: Any) -> None:
        """Nothing: the array owns the memory."""

    def copy_in(self, pointer: int, array: np.ndarray) -> None:
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)

    def copy_out(self, array: np.ndarray, pointer: int) -> None:
        ctypes.memmove(array.ctypes.data, pointer, array.nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        ctypes.memmove(to, source, nbytes)

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        ctypes.memset(pointer, byte, nbytes)

    def load(self, path: Path, arch: str = "") -> Any:
        from noeira.runtime.cuda_cpu.module import CudaCpuModule

        return CudaCpuModule(path)

    def runs(self, kind: Arch) -> bool:
        """What is built for the CPU stands for any kind."""
        return True

    def launcher(self, module: Any, launch: BoundLaunch) -> Callable[[], object]:
        if self.checked is not None:
            return partial(self.checked.launch, module, launch)
        return partial(
            module.launch,
            launch.kernel,
            launch.grid,
            launch.block,
            launch.shared,
            launch.pointers,
            order=self.order,
            seed=self.seed,
        )

    def record(self) -> Any:
        return time.perf_counter()

    def elapsed(self, first: Any, last: Any) -> float:
        return last - first

    def synchronize(self) -> None:
        """Nothing: all is done already."""

    def memory(self) -> tuple[int, int]:
        return host_memory()


@cache
def cuda_cpu_device() -> CudaCpuDevice:
    """The device that programs of target `cuda-cpu` share."""
    return CudaCpuDevice()
