"""The C++ compiler that CUDA is run on the CPU with: which one, what it is asked, its commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from noeira import config
from noeira.errors import CompilerError
from noeira.runtime.build.cache import Cache
from noeira.runtime.build.compiler_search import (
    ENVIRONMENT,
    NATIVE_FLAGS,
    Facts,
    Search,
    identity_of,
    new_source,
    refusal,
    version_and_macros,
)

# Contraction would change the numbers. Kernels may look at the bits of a float through a pointer,
# and are built without what only C++'s libraries need.
FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
)
_CLANG_FLAGS = (
    "-fsanitize=thread",
    "-fsanitize=array-bounds,alignment",
    "-fno-sanitize-trap=all",
)
# What check mode asks for, the first that the compiler takes: to call a function before every
# access to memory, for an index outside its array, and for a pointer that is not aligned. The
# functions are the runtime's own.
CHECK_FLAGS: tuple[tuple[str, ...], ...] = (
    (*_CLANG_FLAGS, "-mllvm", "-tsan-instrument-read-before-write"),
    _CLANG_FLAGS,
    ("-fsanitize=thread", "-fsanitize=bounds-strict,alignment"),
    ("-fsanitize=thread",),
)
# Bytes of a function's variables at most: threads of kernels have small stacks, side by side.
FRAME_BYTES = 1 << 16
LINK_FLAGS = ("-shared", "-pthread", "-lm")
PROBE_TEXT = """\
#include <math.h>
#include <string.h>
extern "C" __attribute__((visibility("default"))) float noeira_probe(float *x, int line);
float noeira_probe(float *x, int line = __builtin_LINE()) { return expf(*x) + (float)line; }
#ifdef NOEIRA_PROBE_HOOKS
#define NOEIRA_HOOK extern "C" __attribute__((visibility("hidden"), no_sanitize("thread"))) void
NOEIRA_HOOK __tsan_init() {}
NOEIRA_HOOK __tsan_func_entry(void *) {}
NOEIRA_HOOK __tsan_func_exit() {}
NOEIRA_HOOK __tsan_read4(void *) {}
NOEIRA_HOOK __ubsan_handle_out_of_bounds(void *, size_t) {}
NOEIRA_HOOK __ubsan_handle_type_mismatch_v1(void *, size_t) {}
#endif
"""


@dataclass(frozen=True)
class CxxCompiler:
    """A C++ compiler that works, with its flags for this processor.

    `identity` is 64 hexadecimal digits over all that may change what it makes of a text: the
    program (path, size, time), its version, its flags and what it predefines. `check_flags`: what
    check mode asks for; empty if it cannot be done.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    check_flags: tuple[str, ...]
    identity: str

    @property
    def alignment_flags(self) -> tuple[str, ...]:
        """What asks for a call where an access is not aligned, which costs next to nothing."""
        if not any("alignment" in flag for flag in self.check_flags):
            return ()
        trap = (flag for flag in self.check_flags if "trap" in flag)
        return ("-fsanitize=alignment", *trap)

    @property
    def frame_flags(self) -> tuple[str, ...]:
        """What refuses a function whose variables take more room than a thread's stack has."""
        if any("-mllvm" in flag or "trap" in flag for flag in self.check_flags):
            return (f"-Wframe-larger-than={FRAME_BYTES}", "-Werror=frame-larger-than=")
        return (f"-Werror=frame-larger-than={FRAME_BYTES}",)

    def object_command(self, flags: tuple[str, ...], *sources: str) -> tuple[str, ...]:
        """The words that compile files into object files, each named after its source, in the
        folder they run in.
        """
        return (*self.command, *self.flags, *flags, "-c", *sources)

    def link_command(self, objects: tuple[str, ...], library: str) -> tuple[str, ...]:
        """The words that link object files into a shared library."""
        return (*linker(self.command), "-o", library, *objects, *LINK_FLAGS)


def find_cxx_compiler(cache: Cache | None = None) -> CxxCompiler | None:
    """The first compiler that builds a shared library: CXX, c++, g++, clang++, then the `ziglang`
    package; None without one.

    Raises CompilerError if CXX is set and of no use.
    """
    return SEARCH.find(cache)


def require_cxx_compiler(cache: Cache | None = None) -> CxxCompiler:
    """As find_cxx_compiler, but raises CompilerError with what was tried and how to get one."""
    return SEARCH.require(cache)


def linker(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command that links for a compiler. Units need nothing of C++'s library, which zig would
    take minutes to build.
    """
    return tuple("cc" if word == "c++" and "ziglang" in command else word for word in command)


class CxxFacts(Facts):
    """What a probe finds out, with the flags of check mode."""

    check_flags: list[str]


def probe(command: tuple[str, ...], folder: Path) -> CxxFacts:
    """Ask a compiler for its version, flags and macros, writing into `folder`.

    Raises CompilerError if it builds no shared library that loads.
    """
    message = ""
    for native in NATIVE_FLAGS:
        flags = (*FLAGS, *native)
        refused = builds(command, flags, folder)
        message = message or refused or ""
        if refused is None:
            break
    else:
        raise CompilerError(message)
    hooks = ("-DNOEIRA_PROBE_HOOKS",)
    tried = (c for c in CHECK_FLAGS if builds(command, (*flags, *hooks, *c), folder) is None)
    checks = next(tried, ())
    version, macros = version_and_macros(command, native, ".cpp", folder)
    return {
        "version": version,
        "flags": [*flags],
        "check_flags": [*checks],
        "macros": macros,
    }


def builds(command: tuple[str, ...], flags: tuple[str, ...], folder: Path) -> str | None:
    """None if the probe becomes a shared library that loads; else the reason why not."""
    stem = new_source(PROBE_TEXT, ".cpp", folder)
    compile_it = (*command, *flags, "-O2", "-c", f"{stem}.cpp")
    link_it = (*linker(command), "-o", f"{stem}.so", f"{stem}.o", *LINK_FLAGS)
    return refusal((compile_it, link_it), folder / f"{stem}.so")


def _compiler(command: tuple[str, ...], facts: CxxFacts) -> CxxCompiler:
    """The compiler that a probe's facts describe."""
    flags = tuple(facts["flags"])
    check_flags = tuple(facts["check_flags"])
    identity = identity_of(command, facts, (command[1:], flags, check_flags, LINK_FLAGS))
    return CxxCompiler(command, facts["version"], flags, check_flags, identity)


SEARCH = Search(
    language="C++",
    setting=config.CXX,
    names=("c++", "g++", "clang++"),
    zig="c++",
    packages=("g++", "gcc-c++"),
    questions=(FLAGS, CHECK_FLAGS, NATIVE_FLAGS, LINK_FLAGS, PROBE_TEXT),
    environment=(*ENVIRONMENT, "CPLUS_INCLUDE_PATH"),
    probe=probe,
    describe=_compiler,
)
