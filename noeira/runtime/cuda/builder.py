"""A unit of CUDA: machine code for one kind of GPU, with its PTX and what its kernels take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.cuda.arch import Arch
from noeira.codegen.source import Source
from noeira.runtime.build.builder import PLANS
from noeira.runtime.build.cache_entry import CacheEntry, digest_of
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.cuda.compiler import CudaCompiler
from noeira.runtime.cuda.resources import Resources, check_kernel, read_resources, resources_text

if TYPE_CHECKING:
    from noeira.codegen.cuda.launches import StageLaunch
    from noeira.runtime.build.library import Library

SOURCE, BINARY, PTX, RESOURCES = "unit.cu", "unit.cubin", "unit.ptx", "resources.json"


@dataclass(frozen=True)
class CudaBuilder:
    """Builds units of CUDA with a compiler for an architecture."""

    compiler: CudaCompiler
    arch: Arch
    language = "CUDA"
    source_name = SOURCE
    binary_name = BINARY

    @property
    def key_parts(self) -> tuple[str, ...]:
        """The compiler with its flags, whether it lets warnings pass, and the architecture."""
        return self.compiler.identity, repr(self.compiler.strict), repr(self.arch)

    @property
    def command(self) -> tuple[str, ...]:
        """One run of nvcc, of the same version where that is not what compiles."""
        return self.compiler.command(self.arch, SOURCE, BINARY)

    @property
    def head(self) -> str:
        """`NVRTC 13.0, sm_90`"""
        return f"{self.compiler.version}, {self.arch.name}"

    @property
    def meta(self) -> dict[str, str]:
        """Compiler and architecture."""
        return {"arch": self.arch.name, "compiler": self.compiler.version}

    def prepare(self) -> None:
        """Units share nothing."""

    def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
        """What a driver loads, machine code or, for an architecture that the compiler does not
        know, PTX, and behind it the plans; the PTX; and what the kernels take.

        Raises CompilerError with the compiler's message, and for a launch of the plans that the
        architecture has no room for.
        """
        code = digest_of(source.code)
        found = compiled.find(code)
        files = self.compile(source.code, folder) if found is None else compiled_files(found[0])
        resources = read_resources(files[RESOURCES].decode())
        kernels = {kernel.kernel: kernel for kernel in resources}
        for one in launches(source):
            # Text without such a kernel was edited: what launches it says so.
            if one.kernel in kernels:
                check_kernel(kernels[one.kernel], self.arch, one.block, one.shared)
        return Made({**files, BINARY: files[BINARY] + behind(source.plans)}, {code: BINARY})

    def compile(self, code: str, folder: Path) -> dict[str, bytes]:
        """What becomes of the code of a unit. Raises CompilerError."""
        made = self.compiler.compile(code, SOURCE, self.arch, folder)
        resources = resources_text(made.resources).encode()
        return {BINARY: made.binary, PTX: made.ptx.encode(), RESOURCES: resources}

    def lenient(self) -> CudaBuilder:
        """The same, with warnings no errors."""
        return replace(self, compiler=self.compiler.lenient())


def launches(source: Source) -> Iterator[StageLaunch]:
    """Every launch of a source's plans; nothing where these are not at hand."""
    from noeira.codegen.cuda.launches import stage_launches

    for plan, symbols in zip(source.parsed, source.symbols, strict=False):
        for call, symbol in zip(plan.calls, symbols, strict=True):
            yield from stage_launches(call, symbol)


def behind(plans: str) -> bytes:
    """Plans as they stand behind machine code or PTX in a file, which then describes itself.

    A driver is told where these begin, not how long they are: machine code says that in its head,
    and PTX ends with a zero.
    """
    return b"\0%b\0" % plans.encode()


def compiled_files(entry: CacheEntry) -> dict[str, bytes]:
    """What became of the code of a unit in the cache: without its plans."""
    files = {name: entry.read(name) for name in (BINARY, PTX, RESOURCES)}
    return {**files, BINARY: files[BINARY].removesuffix(behind(entry.read(PLANS).decode()))}


def unit_resources(entry: CacheEntry) -> tuple[Resources, ...]:
    """What the kernels of a built unit take."""
    return read_resources(entry.read(RESOURCES).decode())


def has_machine_code(library: Library) -> bool:
    """Whether a unit is code for its GPU; for one that the compiler does not know it is PTX, which
    a driver compiles.
    """
    return library.binary.startswith(b"\x7fELF")
