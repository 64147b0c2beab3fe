"""The CUDA compiler: NVRTC where there is one, else nvcc; found once and remembered on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from noeira.codegen.cuda.arch import Arch, capability_of
from noeira.errors import CompilerError
from noeira.log import log
from noeira.runtime.build.cache import Cache, open_cache
from noeira.runtime.build.cache_entry import digest_of
from noeira.runtime.build.compiler_search import programs, remembered
from noeira.runtime.cuda.messages import error_text, warning_text
from noeira.runtime.cuda.nvcc import ENVIRONMENT, Nvcc, find_nvcc, open_nvcc
from noeira.runtime.cuda.nvrtc import Nvrtc, find_libraries, open_nvrtc
from noeira.runtime.cuda.resources import Resources, check_kernel, parse_resources

# Every operation rounds on its own, as IEEE 754 has it, denormals too: the same numbers as from the
# C target. Kernels that want a multiply and an addition in one say so.
FLAGS = (
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ptxas-options=-v",
)
ADVICE = """\
To get one, which needs neither a GPU nor a driver:
  pip install "noeira[cuda]"   NVRTC, in the package nvidia-cuda-nvrtc
or install NVIDIA's CUDA toolkit and set CUDA_HOME to its folder."""


@dataclass(frozen=True)
class Compiled:
    """What became of one text.

    cubin: machine code, b"" if the compiler does not know the architecture: then a driver has to
    make it from `ptx`, which is for the newest that the compiler knows; resources: of each kernel.
    """

    cubin: bytes
    ptx: str
    log: str
    resources: tuple[Resources, ...]

    @property
    def binary(self) -> bytes:
        """What a driver loads: machine code where there is some, else PTX."""
        return self.cubin or self.ptx.encode()


@dataclass(frozen=True)
class CudaCompiler:
    """A CUDA compiler that works, with the flags that every unit is built with.

    strict: whether a warning is an error, as it is for generated texts.
    """

    tool: Nvrtc | Nvcc
    strict: bool = True
    flags: tuple[str, ...] = FLAGS

    @property
    def version(self) -> str:
        """`NVRTC 13.0`"""
        return self.tool.version

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures that it makes machine code for, by number."""
        return self.tool.archs

    @cached_property
    def identity(self) -> str:
        """64 hexadecimal digits over all that may change what it makes of a text: the program
        (path, size, time), its version, its flags and what it takes from the environment.
        """
        return digest_of(tool_key(self.tool), self.version, repr(self.flags))

    def lenient(self) -> CudaCompiler:
        """The same, with warnings no errors: for sources that a person edited."""
        return replace(self, strict=False)

    def command(self, arch: Arch, source: str, binary: str) -> tuple[str, ...]:
        """The words with which nvcc makes of the file `source` what `compile` does."""
        program = self.tool.program if isinstance(self.tool, Nvcc) else "nvcc"
        name = self.built_for(arch)
        kind = "-cubin" if name == arch.name else "-ptx"
        return (program, *self.flags, f"--gpu-architecture={name}", kind, "-o", binary, source)

    def built_for(self, arch: Arch) -> str:
        """The architecture to compile for: that one, or the newest older one that the compiler
        knows. Raises CompilerError if all that it knows are newer.
        """
        if arch.name in self.archs:
            return arch.name
        older = [name for name in self.archs if capability_of(name) < arch.capability]
        if not older:
            raise CompilerError(
                f"{self.version} does not compile for {arch.name}: it has {', '.join(self.archs)}"
            )
        return older[-1]

    def compile(self, text: str, file_name: str, arch: Arch, folder: Path) -> Compiled:
        """Compile a text, called `file_name` in messages, for an architecture; `folder` is one to
        write into.

        Raises CompilerError with the compiler's message, at most 40 lines, and for a kernel that
        wants more than the architecture has.
        """
        name = self.built_for(arch)
        output = self.tool.run(text, file_name, (*self.flags, f"--gpu-architecture={name}"), folder)
        resources = parse_resources(output.log, output.ptx)
        # First, for NVRTC does not say why a kernel with too large arrays fails.
        for kernel in resources:
            check_kernel(kernel, arch)
        if output.failure:
            raise CompilerError(error_text(output.log) or output.failure)
        warnings = warning_text(output.log)
        if warnings and self.strict:
            raise CompilerError(warnings)
        cubin = output.cubin if name == arch.name else b""
        return Compiled(cubin, output.ptx, output.log, resources)


def find_cuda_compiler(cache: Cache | None = None) -> CudaCompiler | None:
    """The first CUDA compiler that works: NVRTC of Python's packages, NVRTC elsewhere, nvcc; None
    without one.
    """
    return _search(cache or open_cache())[0]


def require_cuda_compiler(cache: Cache | None = None) -> CudaCompiler:
    """As find_cuda_compiler, but raises CompilerError with what was tried and how to get one."""
    compiler, tried = _search(cache or open_cache())
    if compiler is None:
        raise CompilerError("\n".join(["no CUDA compiler was found.", *tried, ADVICE]))
    return compiler


_found: dict[tuple[Path, str], CudaCompiler] = {}


def _search(cache: Cache) -> tuple[CudaCompiler | None, list[str]]:
    """The compiler, and one line for each that was of no use or is not there."""
    tried = list[str]()
    for what, candidates in (("NVRTC", nvrtc_candidates()), ("nvcc", nvcc_candidates())):
        there = False
        for path, key, opened in candidates:
            there = True
            try:
                return remembered(_found, cache, key, partial(_facts, opened), _compiler), tried
            except CompilerError as error:
                log("debug", "%s cannot be used: %s", path, error)
                tried.append(f"  {what}: {error}")
        if not there:
            tried.append(f"  {what}: {NOWHERE[what]}")
    return None, tried


NOWHERE = {
    "NVRTC": "there is no libnvrtc in Python's packages, in CUDA_HOME, in /usr/local/cuda or where "
    "the system has its libraries",
    "nvcc": "it is not on PATH, in CUDA_HOME or in /usr/local/cuda",
}
# A path, the key under which what was found out is kept, and what finds it out in a folder.
Candidate = tuple[str, str, Callable[[Path], Nvrtc | Nvcc]]


def nvrtc_candidates() -> Iterator[Candidate]:
    """Every NVRTC."""

    def opened(library: Path, folder: Path) -> Nvrtc:
        return open_nvrtc(library)

    for library in find_libraries():
        yield str(library), probe_key(str(library)), partial(opened, library)


def nvcc_candidates() -> Iterator[Candidate]:
    """The nvcc, if there is one."""
    program = find_nvcc()
    if program is not None:
        yield program, probe_key(program), partial(open_nvcc, program)


def probe_key(path: str) -> str:
    """The key under which what a compiler answers is kept: new when its file is."""
    return digest_of("cuda probe", repr(file_facts(path)), repr(surroundings()))


def file_facts(path: str) -> list[tuple[str, int, int]]:
    """Real path, size (bytes) and time of change (ns) of a file, [] if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [(os.path.realpath(path), status.st_size, status.st_mtime_ns)]


def surroundings() -> list[str | None]:
    """What nvcc takes from the environment."""
    return [os.environ.get(name) for name in ENVIRONMENT]


def tool_key(tool: Nvrtc | Nvcc) -> str:
    """What tells one compiler from another: its files, and what it takes from elsewhere."""
    if isinstance(tool, Nvrtc):
        return repr((file_facts(tool.library), file_facts(tool.builtins)))
    # It calls its own parts, and a C++ compiler for the preprocessor.
    folder = Path(tool.program).parent
    parts = [folder / "ptxas", folder.parent / "nvvm" / "bin" / "cicc"]
    files = [facts for path in (tool.program, *map(str, parts)) for facts in file_facts(path)]
    return repr((files, programs(("gcc",)), surroundings()))


def _facts(opened: Callable[[Path], Nvrtc | Nvcc], folder: Path) -> dict[str, object]:
    """What a candidate answers; kept as JSON. Raises CompilerError if it is of no use."""
    tool = opened(folder)
    return {"tool": tool.name, **asdict(tool)}


def _compiler(facts: dict[str, Any]) -> CudaCompiler:
    """The compiler that a candidate's answers describe."""
    kind = {"nvrtc": Nvrtc, "nvcc": Nvcc}[facts["tool"]]
    told = {name: facts[name] for name in facts if name != "tool"}
    return CudaCompiler(kind(**{**told, "archs": tuple(facts["archs"])}))
