"""What turns plans into CUDA programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.cuda.arch import Arch, arch_of, capability_of
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.plan import Plan
from noeira.runtime.cuda.builder import PTX, CudaBuilder
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from noeira.codegen.cuda.target import CudaTarget
    from noeira.runtime.build.builder import LibraryBuilder
    from noeira.runtime.build.cache import Cache
    from noeira.runtime.build.library import Library
    from noeira.runtime.device.device import Device


@dataclass(frozen=True)
class CudaToolchain(Toolchain):
    """The target's name, the kind of GPU that programs are written for, what builds their units,
    the cache, and what opens the device that they run on: nothing but running them needs that.
    """

    name: str
    arch: Arch
    unit_builder: LibraryBuilder
    cache: Cache
    open_device: Callable[[], Device]
    choices: Choices = NO_CHOICES

    @cached_property
    def device(self) -> Device:
        """What programs run on. Raises DeviceError if something is missing."""
        return self.open_device()

    @cached_property
    def target(self) -> CudaTarget:
        from noeira.codegen.cuda.target import CudaTarget

        return CudaTarget(self.arch, self.choices)

    @property
    def builder(self) -> LibraryBuilder:
        return self.unit_builder

    @property
    def decided(self) -> tuple[str, ...]:
        return "cuda", self.arch.name, *self.unit_builder.key_parts

    def entry(self, plan: Plan, library: Library, index: int = 0) -> LaunchedEntry:
        with self.device.session():
            module = self.device.load(self.path(library), self.arch.name)
        return LaunchedEntry(plan, self.device, module, library.symbols[index])

    def lenient(self) -> CudaToolchain:
        return replace(self, unit_builder=self.unit_builder.lenient())

    def path(self, library: Library) -> Path:
        """What the device loads: machine code, or for one that is newer than the newest kind that
        is known here PTX, of which its driver makes machine code.
        """
        return library.path if self.device.runs(self.arch) else library.entry.path(PTX)


def cuda_toolchain(kind: Arch | None = None, choices: Choices = NO_CHOICES) -> CudaToolchain:
    """For the first GPU of this machine; or for a kind of GPU, which need not be here.

    Raises CompilerError without a CUDA compiler, and DeviceError without pycuda, a driver or a GPU:
    where the kind is given, when the device is asked for.
    """
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.cuda.compiler import require_cuda_compiler
    from noeira.runtime.cuda.device import open_cuda

    cache = open_cache()
    found = kind or arch_of(capability_of(open_cuda().arch))
    builder = CudaBuilder(require_cuda_compiler(cache), found)
    return CudaToolchain("cuda", found, builder, cache, open_cuda, choices)
