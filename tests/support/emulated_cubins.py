"""Lets target `cuda` run on the fake driver: in place of a cubin, a library for the emulator is
built from the same text.

All else is what runs with a GPU: the compiler is looked for, the unit cached and loaded through
pycuda, and its kernels are launched from the same list.
"""

from __future__ import annotations

from pathlib import Path

from noeira.codegen.source import Source
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.cuda import builder as cuda_unit
from noeira.runtime.cuda.builder import BINARY, PTX, RESOURCES, CudaBuilder
from noeira.runtime.cuda.resources import resources_text
from noeira.runtime.cuda_cpu.compiler import require_cxx_compiler
from noeira.runtime.cuda_cpu.shared_library import build, cuda_cpu_identity


class EmulatedCubins(CudaBuilder):
    """Builds what stands for a cubin."""

    @property
    def key_parts(self) -> tuple[str, ...]:
        """So that no real cubin is taken from the cache, nor one of these for a real one."""
        return cuda_cpu_identity(require_cxx_compiler(open_cache())), self.arch.name

    def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
        """The library under the cubin's name and that of the PTX, without resources."""
        library = build(source.text, folder).read_bytes()
        return Made({BINARY: library, PTX: library, RESOURCES: resources_text(()).encode()})


def emulate_cubins() -> None:
    """Does so from now on in this process."""
    cuda_unit.CudaBuilder = EmulatedCubins  # type: ignore[misc]
