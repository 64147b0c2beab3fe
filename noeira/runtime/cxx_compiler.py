"""The C++ compiler that CUDA is run on the CPU with: found, asked once what it can do, and
remembered on disk.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from noeira import config
from noeira.errors import CompilerError
from noeira.runtime.c_compiler import (
    ENVIRONMENT,
    NATIVE_FLAGS,
    PROBE_SECONDS,
    commands,
    processor,
    programs,
)
from noeira.runtime.cache import Cache, open_cache
from noeira.runtime.cache_entry import digest_of
from noeira.runtime.disk import log
from noeira.runtime.process import first_lines, run

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
ADVICE = """\
To get one:
  Debian, Ubuntu    apt install g++
  Fedora            dnf install gcc-c++
  macOS             xcode-select --install
  without root      pip install ziglang
or set CXX to the compiler's command."""


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
    return _search(cache or open_cache())[0]


def require_cxx_compiler(cache: Cache | None = None) -> CxxCompiler:
    """As find_cxx_compiler, but raises CompilerError with what was tried and how to get one."""
    compiler, tried = _search(cache or open_cache())
    if compiler is None:
        raise CompilerError("\n".join(["no C++ compiler was found.", *tried, ADVICE]))
    return compiler


_found: dict[tuple[Path, str], CxxCompiler] = {}


def _search(cache: Cache) -> tuple[CxxCompiler | None, list[str]]:
    """The compiler and one line for each candidate that was of no use."""
    tried = list[str]()
    for command in candidates():
        key = probe_key(command)
        found = _found.get((cache.folder, key)) or _recalled(command, cache.recall(key))
        if found is None:
            try:
                facts = cache.work(partial(probe, command))
            except CompilerError as error:
                text = shlex.join(command)
                if config.CXX.read() is not None:
                    raise CompilerError(f"CXX is {text}, which cannot be used. {error}") from None
                log("debug", "%s cannot be used: %s", text, error)
                tried.append(f"  {text}: {error}")
                continue
            cache.remember(key, json.dumps(facts))
            found = _compiler(command, facts)
        _found[cache.folder, key] = found
        return found, tried
    return None, tried


def candidates() -> Iterator[tuple[str, ...]]:
    """The commands to try, only one with CXX. Raises CompilerError if CXX names no program."""
    return commands(config.CXX, ("c++", "g++", "clang++"), zig="c++")


def linker(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command that links for a compiler. Units need nothing of C++'s library, which zig would
    take minutes to build.
    """
    return tuple("cc" if word == "c++" and "ziglang" in command else word for word in command)


def probe_key(command: tuple[str, ...]) -> str:
    """The key under which a probe's result is kept: new when the program, the processor or the
    questions are.
    """
    questions = FLAGS, CHECK_FLAGS, NATIVE_FLAGS, LINK_FLAGS, PROBE_TEXT
    surroundings = [os.environ.get(name) for name in (*ENVIRONMENT, "CPLUS_INCLUDE_PATH")]
    known = repr((command, programs(command), surroundings, questions))
    return digest_of("probe c++", known, processor())


class Facts(TypedDict):
    """What a probe finds out; kept as JSON."""

    version: str
    flags: list[str]
    check_flags: list[str]
    macros: str


def probe(command: tuple[str, ...], folder: Path) -> Facts:
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
    _, version = run((*command, "--version"), folder, PROBE_SECONDS)
    (folder / "empty.cpp").write_text("")
    status, macros = run((*command, *native, "-dM", "-E", "empty.cpp"), folder, PROBE_SECONDS)
    return {
        "version": next((line.strip() for line in version.splitlines() if line.strip()), "unknown"),
        "flags": [*flags],
        "check_flags": [*checks],
        "macros": macros if status == 0 else "",
    }


def builds(command: tuple[str, ...], flags: tuple[str, ...], folder: Path) -> str | None:
    """None if the probe becomes a shared library that loads; else the reason why not."""
    import ctypes

    # A new name each time: a second library under the path of a loaded one would not be looked at.
    stem = f"probe{len(list(folder.iterdir()))}"
    (folder / f"{stem}.cpp").write_text(PROBE_TEXT)
    compile_it = (*command, *flags, "-O2", "-c", f"{stem}.cpp")
    link_it = (*linker(command), "-o", f"{stem}.so", f"{stem}.o", *LINK_FLAGS)
    for words in (compile_it, link_it):
        status, message = run(words, folder, PROBE_SECONDS)
        if status != 0:
            return first_lines(message, 5) or f"it ended with status {status}"
    try:
        ctypes.CDLL(str(folder / f"{stem}.so"))
    except OSError as error:
        return str(error)
    return None


def _recalled(command: tuple[str, ...], text: str | None) -> CxxCompiler | None:
    """The compiler of a noted probe; None if there is no note or it is not as `probe` writes it."""
    if text is None:
        return None
    try:
        return _compiler(command, json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


def _compiler(command: tuple[str, ...], facts: Facts) -> CxxCompiler:
    """The compiler that a probe's facts describe."""
    flags = tuple(facts["flags"])
    check_flags = tuple(facts["check_flags"])
    known = repr((command[1:], flags, check_flags, LINK_FLAGS))
    identity = digest_of(repr(programs(command)), facts["version"], known, facts["macros"])
    return CxxCompiler(command, facts["version"], flags, check_flags, identity)
