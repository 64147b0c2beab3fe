"""Source to shared library: compiled once, kept in the cache, loaded for good."""

from __future__ import annotations

import errno
import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from noeira import config
from noeira.codegen.source import Source
from noeira.errors import CompilerError, NoeiraError
from noeira.ir.op import OPS
from noeira.ir.plan import Plan, parse_plans
from noeira.runtime.c_compiler import Compiler
from noeira.runtime.cache import Cache
from noeira.runtime.cache_entry import Entry, digest_of
from noeira.runtime.disk import log, remove_tree
from noeira.runtime.fork import Lock
from noeira.runtime.plan_file import read_plans, write_plans
from noeira.runtime.process import first_lines, run

if TYPE_CHECKING:
    from ctypes import CDLL

BUILD_SECONDS = 600
MESSAGE_LINES = 40
SOURCE, LIBRARY, PLANS, COMMAND, META = "unit.c", "unit.so", "unit.plan", "build.txt", "meta.json"
PARSED = "unit.plan.pickle"
APART = (
    b"# This makes what parts of it made that were compiled at the same time, and then linked.\n"
)


@dataclass(frozen=True)
class Library:
    """A built unit: what to load, and whether the compiler ran for it now.

    `key` is that of the generated source, to be remembered for the request that led to it. With
    `edited`, the path of a source that a person edited, `entry` was built from that instead; the
    key stays, so that a later start without NOEIRA_EDITED finds the generated unit.
    """

    key: str
    entry: Entry
    built: bool
    edited: Path | None = None

    @property
    def path(self) -> Path:
        """The shared library."""
        return self.entry.path(LIBRARY)

    @property
    def entry_folder(self) -> Path:
        """The folder with source, library, plans and build command."""
        return self.entry.folder

    @property
    def plans(self) -> str:
        """The text of the plans that the unit serves."""
        return self.entry.read(PLANS).decode()

    def parsed_plans(self) -> list[Plan]:
        """The plans that the unit serves."""
        if PARSED in self.entry.files:
            return [*read_plans(self.entry.read(PARSED))]
        return parse_plans(self.plans)


def unit_key(source: Source, compiler: Compiler) -> str:
    """The cache key of a unit: its whole text, what compiles it and how, and the instruction set it
    was written for.
    """
    return digest_of(
        "unit", source.digest, repr(compiler.flags), compiler.identity, compiler.isa.name
    )


def build_library(
    source: Source, compiler: Compiler, cache: Cache, earlier: Entry | None = None
) -> Library:
    """The shared library of a unit, from the cache or built now; one process builds it, others wait
    for that. What another unit of the program, `earlier`, has of its kernels is not compiled again.

    With NOEIRA_EDITED=1 a source that a person edited in the cache is built and used in place of
    the generated one; without, the generated one is put back and the edit kept beside it. Raises
    CompilerError with the compiler's message.
    """
    key = unit_key(source, compiler)
    entry, built = _get_or_build(key, source, compiler, cache, earlier)
    if config.EDITED.read():
        edit = _read_edit(entry)
        if edit is not None and not source.text.startswith(edit[1]):
            return _build_edited(key, *edit, source, compiler, cache)
    return Library(key, cache.restore(entry, source.text.encode()), built)


def open_library(key: str, compiler: Compiler, cache: Cache) -> Library | None:
    """The library of a unit known by its key alone, as a warm start has it; None if it has to be
    rendered again.

    That is so when the entry is gone, and when its source was edited but edits are not asked for:
    rendering restores it.
    """
    entry = cache.get(key)
    if entry is None:
        return None
    if config.EDITED.read():
        edit = _read_edit(entry)
        if edit is not None:
            meta = json.loads(entry.read(META))
            source = Source(meta["target"], meta["name"], "", entry.read(PLANS).decode())
            return _build_edited(key, *edit, source, compiler, cache)
    return None if entry.changed is not None else Library(key, entry, built=False)


def load(library: Library) -> CDLL:
    """The loaded library. Raises CompilerError if the system refuses to load it."""
    import ctypes

    with _mutex:
        handle = _handles.get(library.path)
        if handle is None:
            try:
                handle = ctypes.CDLL(str(library.path))
            except OSError as error:
                handle = _load_copy(library, error)
            share_pool(handle)
            _handles[library.path] = handle
        return handle


def share_pool(handle: CDLL) -> None:
    """Let a unit use the threads of the units before it: each would bring its own otherwise."""
    import ctypes

    global _pool
    # What is no program's unit has no threads.
    if hasattr(handle, "noeira_pool"):
        handle.noeira_pool.restype = ctypes.c_void_p
        _pool = handle.noeira_pool(ctypes.c_void_p(_pool))


# Handles are kept for the life of the process: programs hold addresses of functions in them, and
# threads wait inside; unmapping code that is about to run crashes.
_handles: dict[Path, CDLL] = {}
_pool: int | None = None
_mutex = Lock()


def _load_copy(library: Library, error: OSError) -> CDLL:
    """Load the verified bytes from another folder: the entry was just removed, or lies where
    nothing may be executed.
    """
    import ctypes
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="noeira-"))
        try:
            (folder / LIBRARY).write_bytes(library.entry.read(LIBRARY))
            return ctypes.CDLL(str(folder / LIBRARY))
        finally:
            remove_tree(folder)
    except OSError:
        raise CompilerError(f"the built library {library.path} cannot be loaded: {error}") from None


def _get_or_build(
    key: str, source: Source, compiler: Compiler, cache: Cache, earlier: Entry | None = None
) -> tuple[Entry, bool]:
    """The entry of a unit, and whether it was built now."""
    entry = cache.get(key)
    if entry is not None:
        return entry, False
    with cache.building(key):
        entry = cache.get(key)
        if entry is not None:
            return entry, False
        return cache.put(key, _compile(key, source, compiler, cache, earlier)), True


def _read_edit(entry: Entry) -> tuple[Path, str] | None:
    """The path and text of an entry's edited source; None if there is none that can be read."""
    path = entry.edited_source()
    try:
        return None if path is None else (path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        log("warning", "the edited source %s cannot be read: %s", path, error)
        return None


def _build_edited(
    key: str, path: Path, text: str, generated: Source, compiler: Compiler, cache: Cache
) -> Library:
    """The library of a source that a person edited: its own entry, keyed by the edited text."""
    log("warning", "running the edited source %s", path)
    source, lenient = replace(generated, text=text, sections=None, parsed=()), compiler.lenient()
    entry, built = _get_or_build(unit_key(source, lenient), source, lenient, cache)
    return Library(key, cache.restore(entry, text.encode()), built, path)


def _compile(
    key: str, source: Source, compiler: Compiler, cache: Cache, earlier: Entry | None
) -> dict[str, bytes]:
    """Run the compiler; gives the files of the entry. Raises CompilerError, the source kept for the
    user to look at.
    """
    from noeira.runtime.part_build import build_in_parts, entry_files

    command = compiler.build_command(SOURCE, LIBRARY)
    head = f"# {compiler.version}, {compiler.isa.name}; in this folder:"
    meta = {
        "name": source.name,
        "target": source.target,
        "isa": compiler.isa.name,
        "compiler": compiler.version,
    }
    files = {
        SOURCE: source.text.encode(),
        PLANS: source.plans.encode(),
        COMMAND: f"{head}\n{shlex.join(command)}\n".encode(),
        META: json.dumps(meta, indent=1).encode(),
    }
    if source.parsed and not any(op.foreign for op in OPS.values()):
        files[PARSED] = write_plans(source.parsed)

    def in_folder(folder: Path) -> dict[str, bytes]:
        (folder / SOURCE).write_bytes(files[SOURCE])
        objects = build_in_parts(source, compiler, folder, LIBRARY, earlier, BUILD_SECONDS)
        if objects is None:
            build_whole(command, folder)
            return {LIBRARY: (folder / LIBRARY).read_bytes()}
        made = {COMMAND: files[COMMAND] + APART, **entry_files(objects)}
        return {LIBRARY: (folder / LIBRARY).read_bytes(), **made}

    try:
        return {**files, **cache.work(in_folder)}
    except CompilerError as error:
        try:
            place = str(
                cache.keep_failed(key, {**files, "message.txt": str(error).encode()}) / SOURCE
            )
        except NoeiraError as refusal:
            place = f"nowhere ({refusal})"
        raise CompilerError(
            f"the C compiler failed on the unit of {source.name}.\n{error}\n\n"
            f"  command: {shlex.join(command)}\n  source:  {place}"
        ) from None


def build_whole(command: tuple[str, ...], folder: Path) -> None:
    """Make the library in one run of the compiler. Raises CompilerError with its message."""
    status, message = run(command, folder, BUILD_SECONDS)
    if "No space left on device" in message:
        raise OSError(errno.ENOSPC, "No space left on device")
    if status != 0 or not (folder / LIBRARY).is_file():
        raise CompilerError(first_lines(message, MESSAGE_LINES) or f"it ended with status {status}")
