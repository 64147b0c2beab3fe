"""What turns plans into CUDA programs: for a GPU, or for the CPU in its place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.arch import DEFAULT_ARCH, Arch, arch, arch_of, capability_of
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.plan import Plan
from noeira.runtime.cuda.builder import PTX, CudaBuilder
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from noeira.codegen.cuda import CudaTarget
    from noeira.runtime.build.builder import UnitBuilder
    from noeira.runtime.build.cache import Cache
    from noeira.runtime.build.library import Library
    from noeira.runtime.cuda_cpu.device import EmulatedDevice
    from noeira.runtime.device.device import Device


@dataclass(frozen=True)
class CudaToolchain(Toolchain):
    """The target's name, the device that programs run on, the kind of GPU that they are written
    for, what builds their units, and the cache.
    """

    name: str
    device: Device
    arch: Arch
    unit_builder: UnitBuilder
    cache: Cache
    choices: Choices = NO_CHOICES

    @cached_property
    def target(self) -> CudaTarget:
        from noeira.codegen.cuda import CudaTarget

        return CudaTarget(self.arch)

    @property
    def builder(self) -> UnitBuilder:
        return self.unit_builder

    @property
    def decided(self) -> tuple[str, ...]:
        return "cuda", self.arch.name, *self.unit_builder.key_parts

    def entry(self, plan: Plan, library: Library, index: int = 0) -> LaunchedEntry:
        with self.device.session():
            module = self.device.load(self.path(library), self.arch.name)
        return LaunchedEntry(plan, self.device, module, library.symbols[index])

    def path(self, library: Library) -> Path:
        """What the device loads: machine code, or for one that is newer than the newest kind that
        is known here PTX, of which its driver makes machine code.
        """
        device = self.device.arch
        known = device == "cpu" or self.arch.runs_on(capability_of(device))
        return library.path if known else library.entry.path(PTX)


def cuda_toolchain() -> CudaToolchain:
    """For the first GPU of this machine. Raises DeviceError without pycuda, a driver or a GPU, and
    CompilerError without a CUDA compiler.
    """
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.cuda.compiler import require_cuda_compiler
    from noeira.runtime.cuda.device import open_cuda

    cache, device = open_cache(), open_cuda()
    kind = arch_of(capability_of(device.arch))
    builder = CudaBuilder(require_cuda_compiler(cache), kind)
    return CudaToolchain("cuda", device, kind, builder, cache)


def cuda_cpu_toolchain(device: EmulatedDevice | None = None) -> CudaToolchain:
    """For the CPU in place of a GPU; in check mode if the device is. Raises CompilerError without a
    C++ compiler.
    """
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.cuda_cpu.builder import EmulatedBuilder
    from noeira.runtime.cuda_cpu.compiler import require_cxx_compiler
    from noeira.runtime.cuda_cpu.device import emulated_device

    cache, device = open_cache(), device or emulated_device()
    check = device.checked is not None
    builder = EmulatedBuilder(require_cxx_compiler(cache), cache, check)
    return CudaToolchain("cuda-cpu", device, arch(DEFAULT_ARCH), builder, cache)
