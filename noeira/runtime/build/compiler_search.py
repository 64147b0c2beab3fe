"""Compilers of this machine: their programs found, asked once what they can do, and remembered on
disk.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar

from noeira.config import Setting
from noeira.errors import CompilerError
from noeira.log import log
from noeira.runtime.build.cache import Cache, open_cache
from noeira.runtime.build.cache_entry import digest_of
from noeira.runtime.build.process import first_lines, run, run_all

T = TypeVar("T")
Command = tuple[str, ...]

# The first that the compiler takes; some know only the second, and for some processors neither.
NATIVE_FLAGS: tuple[Command, ...] = (("-march=native",), ("-mcpu=native",), ())
PROBE_SECONDS = 120
ADVICE = """\
To get one:
  Debian, Ubuntu    apt install {debian}
  Fedora            dnf install {fedora}
  macOS             xcode-select --install
  without root      pip install ziglang
or set {setting} to the compiler's command."""
# What else decides which headers and libraries a compiler takes.
ENVIRONMENT = (
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SDKROOT",
)


class Facts(TypedDict):
    """What a probe finds out; kept as JSON."""

    version: str
    flags: list[str]
    macros: str


@dataclass(frozen=True, eq=False)
class Search(Generic[T]):
    """The search for a compiler of one language, the first that works.

    setting: names the only command to try; else `names` are tried, then what the `ziglang` package
    calls such a compiler, `zig`. packages: what has one on Debian and on Fedora. questions: all
    that a command is asked; environment: what of it has a say. probe: asks a command, with a folder
    to write into, and raises CompilerError if it is of no use. describe: the compiler of a command
    and its facts. found: what this process has found, by cache folder and key.
    """

    language: str
    setting: Setting[str | None]
    names: tuple[str, ...]
    zig: str
    packages: tuple[str, str]
    questions: object
    environment: tuple[str, ...]
    probe: Callable[[Command, Path], Facts]
    describe: Callable[[Command, Any], T]
    found: dict[tuple[Path, str], T] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """How to get a compiler."""
        debian, fedora = self.packages
        return ADVICE.format(debian=debian, fedora=fedora, setting=self.setting.name)

    def key(self, command: Command) -> str:
        """The key under which a command's facts are noted: new when the program, the processor, the
        environment or the questions are.
        """
        surroundings = [os.environ.get(name) for name in self.environment]
        known = repr((command, programs(command), surroundings, self.questions))
        return digest_of("probe", self.language, known, processor())

    def find(self, cache: Cache | None) -> T | None:
        """The first compiler that works; None without one. Raises CompilerError if the setting's is
        of no use: what was asked for is never replaced silently.
        """
        return self._first(cache or open_cache())[0]

    def require(self, cache: Cache | None) -> T:
        """As find, but raises CompilerError with what was tried and how to get a compiler."""
        compiler, tried = self._first(cache or open_cache())
        if compiler is None:
            lines = [f"no {self.language} compiler was found.", *tried, self.advice]
            raise CompilerError("\n".join(lines))
        return compiler

    def _first(self, cache: Cache) -> tuple[T | None, list[str]]:
        """The compiler and one line for each candidate that was of no use."""
        tried = list[str]()
        for command in commands(self.setting, self.names, self.zig):
            ask, describe = partial(self.probe, command), partial(self.describe, command)
            try:
                return remembered(self.found, cache, self.key(command), ask, describe), tried
            except CompilerError as error:
                name, text = self.setting.name, shlex.join(command)
                if self.setting.read() is not None:
                    message = f"{name} is {text}, which cannot be used: {error}"
                    raise CompilerError(message) from None
                log("debug", "%s cannot be used: %s", text, error)
                tried.append(f"  {text}: {error}")
        return None, tried


def remembered(
    found: dict[tuple[Path, str], T],
    cache: Cache,
    key: str,
    ask: Callable[[Path], Mapping[str, object]],
    describe: Callable[[Any], T],
) -> T:
    """What `describe` makes of the facts under a key: as `found` earlier in this process, as the
    cache has noted them, or as `ask` finds them now, with a folder to write into.

    Raises CompilerError as `ask` does.
    """
    # By cache folder too: a process that works with another cache leaves a note there as well.
    place = cache.folder, key
    one = found.get(place) or _recalled(cache.recall(key), describe)
    if one is None:
        facts = cache.work(ask)
        cache.remember(key, json.dumps(facts))
        one = describe(facts)
    found[place] = one
    return one


def _recalled(text: str | None, describe: Callable[[Any], T]) -> T | None:
    """What a note describes; None if there is no note or it is not as `remembered` writes it."""
    if text is None:
        return None
    try:
        return describe(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def commands(setting: Setting[str | None], names: tuple[str, ...], zig: str) -> Iterator[Command]:
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


def programs(command: Command) -> list[tuple[str, int, int]]:
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


def identity_of(command: Command, facts: Facts, built_with: object) -> str:
    """64 hexadecimal digits over all that may change what a compiler makes of a text: its programs,
    its version, what it predefines, and the words that it is called with.
    """
    return digest_of(repr(programs(command)), facts["version"], repr(built_with), facts["macros"])


def new_source(text: str, suffix: str, folder: Path) -> str:
    """Writes a text to ask a compiler about; gives the file's name without suffix."""
    # A new name each time: a second library under the path of a loaded one would not be looked at.
    stem = f"probe{len(list(folder.iterdir()))}"
    (folder / f"{stem}{suffix}").write_text(text)
    return stem


def refusal(steps: Iterable[Command], library: Path) -> str | None:
    """None if commands, one after the other in its folder, make a shared library that loads; else
    the reason why not.
    """
    import ctypes

    for words in steps:
        status, message = run(words, library.parent, PROBE_SECONDS)
        if status != 0:
            return first_lines(message, 5) or f"it ended with status {status}"
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return None


def version_and_macros(
    command: Command, native: tuple[str, ...], suffix: str, folder: Path
) -> tuple[str, str]:
    """What a compiler calls itself, and what it predefines with the flags for this processor; ""
    if it does not tell.
    """
    empty = f"empty{suffix}"
    (folder / empty).write_text("")
    asked = [(*command, "--version"), (*command, *native, "-dM", "-E", empty)]
    (_, text), (status, macros) = run_all(asked, folder, PROBE_SECONDS)
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return next(lines, "unknown version"), macros if status == 0 else ""
