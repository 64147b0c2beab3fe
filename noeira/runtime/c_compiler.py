"""The C compiler: found, asked once what it can do, and remembered on disk."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict

from noeira import config
from noeira.codegen.target import ISA, isa_from_macros
from noeira.config import Setting
from noeira.errors import CompilerError
from noeira.runtime.cache import Cache, open_cache
from noeira.runtime.cache_entry import digest_of
from noeira.runtime.disk import log
from noeira.runtime.process import first_lines, run, run_all

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
# The first that the compiler takes; some know only the second, and for some processors neither.
NATIVE_FLAGS: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
THREADS_FLAG = "-pthread"
LINK_FLAGS = ("-lm",)
PROBE_SECONDS = 120
BUILD_SECONDS = 600
# What else decides which headers and libraries a compiler takes.
ENVIRONMENT = (
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SDKROOT",
)

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
ADVICE = """\
To get one:
  Debian, Ubuntu    apt install gcc libc6-dev
  Fedora            dnf install gcc
  macOS             xcode-select --install
  without root      pip install ziglang
or set CC to the compiler's command."""


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
    return _search(cache or open_cache())[0]


def require_compiler(cache: Cache | None = None) -> Compiler:
    """As find_compiler, but raises CompilerError with what was tried and how to get a compiler."""
    compiler, tried = _search(cache or open_cache())
    if compiler is None:
        raise CompilerError("\n".join(["no C compiler was found.", *tried, ADVICE]))
    return compiler


# By cache folder too: a process that works with another cache leaves a note there as well.
_found: dict[tuple[Path, str], Compiler] = {}


def _search(cache: Cache) -> tuple[Compiler | None, list[str]]:
    """The compiler and one line for each candidate that was of no use."""
    tried = []
    for command in candidates():
        key = probe_key(command)
        found = _found.get((cache.folder, key)) or _recalled(command, cache.recall(key))
        if found is None:
            try:
                facts = cache.work(partial(probe, command))
            except CompilerError as error:
                text = shlex.join(command)
                if config.CC.read() is not None:
                    raise CompilerError(f"CC is {text}, which cannot be used. {error}") from None
                log("debug", "%s cannot be used: %s", text, error)
                tried.append(f"  {text}: {error}")
                continue
            cache.remember(key, json.dumps(facts))
            found = _compiler(command, facts)
        _found[cache.folder, key] = found
        return found, tried
    return None, tried


def candidates() -> Iterator[tuple[str, ...]]:
    """The commands to try, only one with CC. Raises CompilerError if CC names no program."""
    return commands(config.CC, ("cc", "gcc", "clang"), zig="cc")


def commands(
    setting: Setting[str | None], names: tuple[str, ...], zig: str
) -> Iterator[tuple[str, ...]]:
    """The command that a setting names, else the programs of these names that there are, and what
    the `ziglang` package calls such a compiler. Raises CompilerError if the setting names no
    program.
    """
    chosen, name = setting.read(), setting.name
    if chosen is not None:
        try:
            command = tuple(shlex.split(chosen))
        except ValueError as error:
            raise CompilerError(f"{name}={chosen}: {error}") from None
        if which(command[0]) is None:
            raise CompilerError(
                f"{name}={chosen}: there is no program {command[0]}. Correct {name}, or unset it"
            )
        # Compilers run in folders of their own, where a relative path would lead nowhere.
        program = os.path.abspath(command[0]) if os.path.dirname(command[0]) else command[0]
        yield program, *command[1:]
        return
    yield from ((program,) for program in names if which(program) is not None)
    if ziglang_program() is not None:
        yield sys.executable, "-m", "ziglang", zig


def which(name: str) -> str | None:
    """The path of a program, as the shell would find it."""
    if os.name != "posix":
        import shutil

        return shutil.which(name)
    # Without shutil, whose import takes longer than all else that a warm start does here.
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    paths = (os.path.join(folder, name) for folder in folders)
    return next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def ziglang_program() -> Path | None:
    """The program inside the `ziglang` package, found without importing that."""
    for folder in sys.path:
        for name in ("zig", "zig.exe"):
            path = Path(folder or ".", "ziglang", name)
            if path.is_file():
                return path
    return None


def programs(command: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Real path, size (bytes) and time of change (ns) of every word that is a program: `ccache gcc`
    has two.
    """
    paths = [
        found for word in command if not word.startswith("-") and (found := which(word)) is not None
    ]
    if "ziglang" in command:
        paths += [str(path) for path in (ziglang_program(),) if path is not None]
    found = []
    for path in map(os.path.realpath, paths):
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append((path, status.st_size, status.st_mtime_ns))
    return found


def processor() -> str:
    """What tells one kind of processor from another: model and features of the first one, where the
    system shows them.
    """
    try:
        text = b""
        # Only the first processor's lines: making all of them takes the kernel long on large
        # machines.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            while b"\n\n" not in text and (more := file.read(4096)):
                text += more
    except OSError:
        import platform

        return f"{platform.machine()} {platform.processor()}"
    lines = text.partition(b"\n\n")[0].decode("utf-8", "replace").splitlines()
    changing = (
        "processor",
        "cpu MHz",
        "bogomips",
        "BogoMIPS",
        "apicid",
        "initial apicid",
        "core id",
        "physical id",
    )
    return "\n".join(line for line in lines if not line.startswith(changing))


def probe_key(command: tuple[str, ...]) -> str:
    """The key under which a probe's result is kept: new when the program, the processor or the
    questions are.
    """
    questions = (REQUIRED_FLAGS, OPTIONAL_FLAGS, NATIVE_FLAGS, LINK_FLAGS, PROBE_TEXT, THREADS_TEXT)
    surroundings = [os.environ.get(name) for name in ENVIRONMENT]
    return digest_of(
        "probe", repr((command, programs(command), surroundings, questions)), processor()
    )


class Facts(TypedDict):
    """What a probe finds out; kept as JSON."""

    version: str
    flags: list[str]
    macros: str


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
    (folder / "empty.c").write_text("")
    asked = [(*command, "--version"), (*command, *native, "-dM", "-E", "empty.c")]
    (_, text), (status, macros) = run_all(asked, folder, PROBE_SECONDS)
    return {
        "version": next(
            (line.strip() for line in text.splitlines() if line.strip()), "unknown version"
        ),
        "flags": [*flags, THREADS_FLAG] if threads else [*flags],
        "macros": macros if status == 0 else "",
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
    import ctypes

    # A new name each time: a second library under the path of a loaded one would not be looked at.
    stem = f"probe{len(list(folder.iterdir()))}"
    (folder / f"{stem}.c").write_text(text)
    words = (*command, *flags, "-o", f"{stem}.so", f"{stem}.c", *LINK_FLAGS)
    status, message = run(words, folder, PROBE_SECONDS)
    if status != 0:
        return first_lines(message, 5) or f"it ended with status {status}"
    try:
        ctypes.CDLL(str(folder / f"{stem}.so"))
    except OSError as error:
        return str(error)
    return None


def _recalled(command: tuple[str, ...], text: str | None) -> Compiler | None:
    """The compiler of a noted probe; None if there is no note or it is not as `probe` writes it."""
    if text is None:
        return None
    try:
        return _compiler(command, json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


def _compiler(command: tuple[str, ...], facts: Facts) -> Compiler:
    """The compiler that a probe's facts describe."""
    flags = tuple(facts["flags"])
    identity = digest_of(
        repr(programs(command)),
        facts["version"],
        repr((command[1:], flags, LINK_FLAGS)),
        facts["macros"],
    )
    return Compiler(
        command,
        facts["version"],
        isa_from_macros(facts["macros"]),
        flags,
        identity,
    )
