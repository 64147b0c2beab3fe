"""A unit of CUDA built for the CPU: the same text as for a GPU, as a shared library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from noeira.codegen.source import Source
from noeira.runtime.build.cache import Cache
from noeira.runtime.build.cache_entry import digest_of
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.cuda.builder import SOURCE
from noeira.runtime.cuda_cpu.compiler import CxxCompiler
from noeira.runtime.cuda_cpu.shared_library import (
    CHECKED_FLAGS,
    FAST_FLAGS,
    build,
    cuda_cpu_identity,
    runtime_entry,
)

LIBRARY = "unit.so"


@dataclass(frozen=True)
class CudaCpuBuilder:
    """Builds units of CUDA for the CPU with a C++ compiler.

    check: whether kernels report wrong accesses; cache: where what all units share is kept.
    """

    compiler: CxxCompiler
    cache: Cache
    check: bool = False
    language = "C++"
    source_name = SOURCE
    binary_name = LIBRARY

    @property
    def key_parts(self) -> tuple[str, ...]:
        """The compiler, all that stands for a GPU, and whether accesses are checked."""
        return cuda_cpu_identity(self.compiler), repr(self.check)

    @property
    def command(self) -> tuple[str, ...]:
        """How the compiler is run on what the text becomes for it."""
        flags = CHECKED_FLAGS if self.check else FAST_FLAGS
        return self.compiler.object_command((*flags, "-include", "cuda_cpu.h"), "unit.cpp")

    @property
    def head(self) -> str:
        """`g++ (Debian 12.2.0-14) 12.2.0, checked`"""
        return f"{self.compiler.version}, {'checked' if self.check else 'fast'}"

    @property
    def meta(self) -> dict[str, str]:
        """Compiler and mode."""
        return {"check": repr(self.check), "compiler": self.compiler.version}

    def prepare(self) -> None:
        """Build what all units share. Raises CompilerError."""
        runtime_entry(self.compiler, self.cache)

    def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
        """The library, without the plans: nothing reads them in it."""
        code = digest_of(source.code)
        found = compiled.find(code)
        if found is None:
            path = build(source.code, folder, self.check, SOURCE, self.compiler, self.cache)
            library = path.read_bytes()
        else:
            library = found[0].read(LIBRARY)
        return Made({LIBRARY: library}, {code: LIBRARY})

    def lenient(self) -> CudaCpuBuilder:
        """The same: warnings never are errors here, for NVIDIA's compiler gives them."""
        return self
