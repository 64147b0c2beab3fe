"""A unit of CUDA: machine code for one kind of GPU, with its PTX and what its kernels take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from noeira.codegen.arch import Arch
from noeira.codegen.source import Source
from noeira.runtime.cache_entry import Entry
from noeira.runtime.cuda_compiler import CudaCompiler
from noeira.runtime.resources import Resources, check_kernel, read_resources, resources_text

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

    def make(self, source: Source, folder: Path, earlier: Entry | None) -> dict[str, bytes]:
        """What a driver loads, machine code or, for an architecture that the compiler does not
        know, PTX; the PTX; and what the kernels take.

        Raises CompilerError with the compiler's message, and for a launch of the plans that the
        architecture has no room for.
        """
        made = self.compiler.compile(source.text, SOURCE, self.arch, folder)
        kernels = {kernel.kernel: kernel for kernel in made.resources}
        for name, block, shared in launches(source):
            # Text without such a kernel was edited: what launches it says so.
            if name in kernels:
                check_kernel(kernels[name], self.arch, block, shared)
        return {
            BINARY: made.binary,
            PTX: made.ptx.encode(),
            RESOURCES: resources_text(made.resources).encode(),
        }

    def lenient(self) -> CudaBuilder:
        """The same, with warnings no errors."""
        return replace(self, compiler=self.compiler.lenient())


def launches(source: Source) -> Iterator[tuple[str, int, int]]:
    """Every launch of a source's plans: the kernel's name, the threads of a block, and the bytes of
    dynamic shared memory; nothing where the plans are not at hand.
    """
    from noeira.codegen.kernels import function_names

    for plan, symbols in zip(source.parsed, source.symbols, strict=False):
        for call, symbol in zip(plan.calls, symbols, strict=True):
            names = function_names(call, symbol)
            for name, stage in zip(names, call.choice.stages, strict=True):
                options = dict(stage.options)
                yield name, options["block"], options.get("shared", 0)


def unit_resources(entry: Entry) -> tuple[Resources, ...]:
    """What the kernels of a built unit take."""
    return read_resources(entry.read(RESOURCES).decode())
