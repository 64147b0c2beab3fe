"""A `.cu` built for the CPU: one shared library with its kernels and the runtime that runs them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from noeira.errors import CompilerError
from noeira.runtime.build.cache import Cache, open_cache
from noeira.runtime.build.cache_entry import CacheEntry, digest_of
from noeira.runtime.build.process import BUILD_SECONDS, MESSAGE_LINES, first_lines, run
from noeira.runtime.cuda_cpu.compiler import CxxCompiler, require_cxx_compiler
from noeira.runtime.cuda_cpu.text import host_text

RUNTIME = Path(__file__).parent / "native"
# Kernels keep their own order of operations at any level; only their speed differs. In check mode
# the lines of accesses matter more, and loads that the text does not ask for must not be made.
FAST_FLAGS = ("-O2",)
CHECKED_FLAGS = ("-O1", "-gdwarf-4", "-fno-inline", "-DNOEIRA_CHECK=1")
RUNTIME_FLAGS = ("-O2",)


def build(
    text: str,
    folder: Path,
    check: bool = False,
    name: str = "unit.cu",
    compiler: CxxCompiler | None = None,
    cache: Cache | None = None,
) -> Path:
    """Build the text of a `.cu` in a folder; gives the path of the library, `unit.so`.

    name: what messages call the text. Raises CompilerError with the compiler's message, in the
    lines of the text, and if there is no compiler.
    """
    cache = cache or open_cache()
    compiler = compiler or require_cxx_compiler(cache)
    if check and not compiler.check_flags:
        raise CompilerError(
            f"{compiler.version} cannot mark memory accesses (-fsanitize=thread), which check mode "
            "needs. Set CXX to g++ or clang++"
        )
    runtime = runtime_entry(compiler, cache)
    (folder / "unit.cpp").write_text(host_text(text, name).text)
    flags = (*FAST_FLAGS, *compiler.alignment_flags)
    if check:
        flags = (*CHECKED_FLAGS, *compiler.check_flags)
    header = (*compiler.frame_flags, "-include", str(RUNTIME / "cuda_cpu.h"))
    objects = tuple(str(runtime.path(file)) for file in runtime.files if file.endswith(".o"))
    commands = (
        compiler.object_command((*flags, *header), "unit.cpp"),
        compiler.link_command(("unit.o", *objects), "unit.so"),
    )
    for command in commands:
        status, message = run(command, folder, BUILD_SECONDS)
        if status != 0:
            raise CompilerError(f"{name} cannot be built:\n{first_lines(message, MESSAGE_LINES)}")
    return folder / "unit.so"


def cuda_cpu_identity(compiler: CxxCompiler) -> str:
    """64 hexadecimal digits over all but the text that decide what `build` makes of it: compiler,
    flags, runtime.
    """
    return digest_of("cuda-cpu", compiler.identity, repr((FAST_FLAGS, CHECKED_FLAGS)), _sources())


def runtime_entry(compiler: CxxCompiler, cache: Cache) -> CacheEntry:
    """The runtime's object files, built once for a compiler. Raises CompilerError."""
    key = digest_of("cuda-cpu runtime", compiler.identity, repr(RUNTIME_FLAGS), _sources())
    entry = cache.get(key)
    if entry is not None:
        return entry
    with cache.building(key):
        entry = cache.get(key)
        return entry or cache.put(key, cache.work(lambda folder: _runtime(compiler, folder)))


def _runtime(compiler: CxxCompiler, folder: Path) -> dict[str, bytes | Path]:
    """The object files of the runtime, by name."""
    sources = [str(path) for path in sorted(RUNTIME.glob("*.cpp"))]
    status, message = run(compiler.object_command(RUNTIME_FLAGS, *sources), folder, BUILD_SECONDS)
    if status != 0:
        raise CompilerError(
            "the runtime that runs CUDA on the CPU cannot be built:\n"
            + first_lines(message, MESSAGE_LINES)
        )
    return {path.name: path.read_bytes() for path in folder.glob("*.o")}


@lru_cache(maxsize=1)
def _sources() -> str:
    """The digest of the runtime's sources and header."""
    paths = sorted(path for path in RUNTIME.iterdir() if path.suffix in (".h", ".cpp"))
    return digest_of(*[path.name for path in paths], *[path.read_bytes() for path in paths])
