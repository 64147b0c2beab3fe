"""The C compiler: which one, what it is asked, and the commands that build units with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from noeira import config
from noeira.codegen.c.isa import ISA, isa_from_macros
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

# Without these a compiler is no use: contraction changes the numbers.
REQUIRED_FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-shared")
# Left out one by one where a compiler refuses them (-fPIC on Windows, some warnings of other
# compilers).
OPTIONAL_FLAGS = (
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
    "-Werror",
)
THREADS_FLAG = "-pthread"
LINK_FLAGS = ("-lm",)

PROBE_TEXT = """\
#include <math.h>
#include <string.h>
float noeira_probe(const float *x, float *y);
float noeira_probe(const float *x, float *y) { memcpy(y, x, sizeof *y); return expf(*y); }
"""
# What a unit's threads need of the system; without, its own text leaves them out.
THREADS_TEXT = """\
#include <pthread.h>
#include <signal.h>
#ifndef _REENTRANT
#error "the flag is not -pthread as units know it"
#endif
int noeira_threads(void *(*work)(void *));
int noeira_threads(void *(*work)(void *)) {
    pthread_t thread;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return pthread_create(&thread, NULL, work, NULL);
}
"""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that works, with the flags that every unit is built with.

    `identity` is 64 hexadecimal digits over all that may change what it makes of a text: the
    program (path, size, time), its version, its flags and what it predefines for this processor.
    """

    command: tuple[str, ...]
    version: str
    isa: ISA
    flags: tuple[str, ...]
    identity: str

    @property
    def has_threads(self) -> bool:
        """Whether units have threads; those of other compilers run on one."""
        return THREADS_FLAG in self.flags

    def build_command(self, source: str, library: str) -> tuple[str, ...]:
        """The words that compile and link the file `source` into the shared library `library`."""
        return (*self.command, *self.flags, "-o", library, source, *LINK_FLAGS)

    def part_command(self, source: str, target: str) -> tuple[str, ...]:
        """The words that compile the file `source`, a part of a unit, into an object file."""
        flags = (flag for flag in self.flags if flag != "-shared")
        return (*self.command, *flags, "-ffunction-sections", "-c", "-o", target, source)

    def link_command(self, objects: Sequence[str], library: str) -> tuple[str, ...]:
        """The words that link object files into the shared library `library`, without functions
        that nothing in it calls.
        """
        flags = (flag for flag in self.flags if flag != "-Werror")
        last = (*LINK_FLAGS, "-Wl,--gc-sections")
        return (*self.command, *flags, "-o", library, *objects, *last)

    def lenient(self) -> Compiler:
        """The same, with warnings no errors: for sources that a person edited."""
        return replace(self, flags=tuple(flag for flag in self.flags if flag != "-Werror"))


def find_compiler(cache: Cache | None = None) -> Compiler | None:
    """The first compiler that builds a shared library: CC, cc, gcc, clang, then the `ziglang`
    package; None without one.

    Raises CompilerError if CC is set and of no use: what was asked for is never replaced silently.
    """
    return SEARCH.find(cache)


def require_compiler(cache: Cache | None = None) -> Compiler:
    """As find_compiler, but raises CompilerError with what was tried and how to get a compiler."""
    return SEARCH.require(cache)


def probe(command: tuple[str, ...], folder: Path) -> Facts:
    """Ask a compiler for its version, flags, macros and threads, writing into `folder`.

    Raises CompilerError if it builds no shared library that loads.
    """
    flags, native = (*REQUIRED_FLAGS, *NATIVE_FLAGS[0], *OPTIONAL_FLAGS), NATIVE_FLAGS[0]
    # Most compilers take everything: then one question is enough.
    all_of_it = PROBE_TEXT + THREADS_TEXT
    threads = builds(command, (*flags, THREADS_FLAG), all_of_it, folder) is None
    if not threads:
        flags, native = working_flags(command, folder)
        threads = builds(command, (*flags, THREADS_FLAG), THREADS_TEXT, folder) is None
    version, macros = version_and_macros(command, native, ".c", folder)
    return {
        "version": version,
        "flags": [*flags, THREADS_FLAG] if threads else [*flags],
        "macros": macros,
    }


def working_flags(
    command: tuple[str, ...], folder: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The flags that the compiler takes, and which of them name the processor. Raises CompilerError
    with its message.
    """
    message = None
    for native in NATIVE_FLAGS:
        flags = (*REQUIRED_FLAGS, *native, *OPTIONAL_FLAGS)
        message = builds(command, flags, PROBE_TEXT, folder)
        if message is None:
            return flags, native
    # Asked with -Werror: clang only warns of a flag that it does not know.
    required = (
        *REQUIRED_FLAGS,
        *(("-Werror",) if builds(command, ("-Werror",), "", folder) is None else ()),
    )
    plain = builds(command, required, PROBE_TEXT, folder)
    if plain is not None:
        raise CompilerError(plain)
    natives = (
        native
        for native in NATIVE_FLAGS
        if builds(command, (*required, *native), PROBE_TEXT, folder) is None
    )
    native = next(natives, ())
    optional = [
        flag
        for flag in OPTIONAL_FLAGS
        if builds(command, (*required, flag), PROBE_TEXT, folder) is None
    ]
    return (*REQUIRED_FLAGS, *native, *optional), native


def builds(command: tuple[str, ...], flags: tuple[str, ...], text: str, folder: Path) -> str | None:
    """None if the text becomes a shared library that loads; else the reason why not."""
    stem = new_source(text, ".c", folder)
    words = (*command, *flags, "-o", f"{stem}.so", f"{stem}.c", *LINK_FLAGS)
    return refusal((words,), folder / f"{stem}.so")


def _compiler(command: tuple[str, ...], facts: Facts) -> Compiler:
    """The compiler that a probe's facts describe."""
    flags = tuple(facts["flags"])
    identity = identity_of(command, facts, (command[1:], flags, LINK_FLAGS))
    return Compiler(command, facts["version"], isa_from_macros(facts["macros"]), flags, identity)


SEARCH = Search(
    language="C",
    setting=config.CC,
    names=("cc", "gcc", "clang"),
    zig="cc",
    packages=("gcc libc6-dev", "gcc"),
    questions=(REQUIRED_FLAGS, OPTIONAL_FLAGS, NATIVE_FLAGS, LINK_FLAGS, PROBE_TEXT, THREADS_TEXT),
    environment=ENVIRONMENT,
    probe=probe,
    describe=_compiler,
)
