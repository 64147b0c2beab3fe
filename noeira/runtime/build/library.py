"""Source to binary: compiled once, kept in the cache; shared libraries are loaded for good."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from noeira import config
from noeira.codegen.language import LANGUAGES
from noeira.codegen.source import Source
from noeira.disk import remove_tree
from noeira.errors import CompilerError, NoeiraError
from noeira.ir.op import names_foreign
from noeira.ir.plan import Plan
from noeira.ir.text.plan import parse_plans
from noeira.log import log
from noeira.runtime.build.builder import COMMAND, PLANS, LibraryBuilder, command_text
from noeira.runtime.build.cache import Cache
from noeira.runtime.build.cache_entry import CacheEntry, digest_of
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.build.own_sources import own_digest
from noeira.runtime.build.plan_file import read_plans, write_plans
from noeira.runtime.fork import Lock

if TYPE_CHECKING:
    from ctypes import CDLL

META = "meta.json"
PARSED = "unit.plan.pickle"


@dataclass(frozen=True)
class Library:
    """A built unit: what to load, and whether the compiler ran for it now.

    `key` is that of the generated source, to be remembered for the request that led to it. With
    `edited`, the path of a source that a person edited, `entry` was built from that instead; the
    key stays, so that a later start without NOEIRA_EDITED finds the generated unit.
    """

    key: str
    entry: CacheEntry
    built: bool
    source_name: str
    binary_name: str
    edited: Path | None = None

    @property
    def path(self) -> Path:
        """What is loaded: a shared library, or machine code of a GPU."""
        return self.entry.path(self.binary_name)

    @property
    def binary(self) -> bytes:
        """The content of that."""
        return self.entry.read(self.binary_name)

    @property
    def text(self) -> str:
        """The source."""
        return self.entry.read(self.source_name).decode()

    @property
    def entry_folder(self) -> Path:
        """The folder with source, library, plans and build command."""
        return self.entry.folder

    @property
    def plans(self) -> str:
        """The text of the plans that the unit serves."""
        return self.entry.read(PLANS).decode()

    @property
    def symbols(self) -> list[list[str]]:
        """For each of its plans, the kernel of every call; of CUDA only."""
        return json.loads(self.entry.read(META))["symbols"]

    def parsed_plans(self) -> list[Plan]:
        """The plans that the unit serves."""
        if PARSED in self.entry.files:
            return [*read_plans(self.entry.read(PARSED))]
        return parse_plans(self.plans)


def library_key(source: Source, builder: LibraryBuilder, cache: Cache | None = None) -> str:
    """The cache key of a unit: its whole text, what compiles it and how, and what processor it was
    written for; of one that is kept with its plans as objects, noeira's own sources too, for others
    may have other classes.
    """
    own = own_digest(cache) if source.parsed else ""
    return digest_of("unit", source.digest, own, *builder.key_parts)


def code_key(source: Source, builder: LibraryBuilder) -> str:
    """The same for all units that differ in no more than comments and the plans that they carry."""
    return digest_of("code", source.code, *builder.key_parts)


def build_library(source: Source, builder: LibraryBuilder, cache: Cache) -> Library:
    """The binary of a unit, from the cache or built now; one process builds it, others wait for
    that. What of it other units have already is not compiled again.

    With NOEIRA_EDITED=1 a source that a person edited in the cache is built and used in place of
    the generated one; without, the generated one is put back and the edit kept beside it. Raises
    CompilerError with the compiler's message.
    """
    key = library_key(source, builder, cache)
    entry, built = _get_or_build(key, Build(source, builder), cache)
    if config.EDITED.read():
        edit = _read_edit(entry)
        if edit is not None and not source.text.startswith(edit[1]):
            return _build_edited(key, *edit, source, builder, cache)
    return _library(key, cache.restore(entry, source.text.encode()), built, builder)


def open_library(key: str, builder: LibraryBuilder, cache: Cache) -> Library | None:
    """The binary of a unit known by its key alone, as a warm start has it; None if it has to be
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
            symbols = tuple(map(tuple, meta["symbols"]))
            plans = entry.read(PLANS).decode()
            source = Source(LANGUAGES[meta["language"]], meta["name"], "", plans, symbols=symbols)
            return _build_edited(key, *edit, source, builder, cache)
    return None if entry.changed is not None else _library(key, entry, False, builder)


def _library(
    key: str, entry: CacheEntry, built: bool, builder: LibraryBuilder, edited: Path | None = None
) -> Library:
    """An entry as what a builder made."""
    return Library(key, entry, built, builder.source_name, builder.binary_name, edited)


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
            (folder / library.binary_name).write_bytes(library.binary)
            return ctypes.CDLL(str(folder / library.binary_name))
        finally:
            remove_tree(folder)
    except OSError:
        raise CompilerError(f"the built library {library.path} cannot be loaded: {error}") from None


@dataclass(frozen=True)
class Build:
    """A unit to build; `edited` is the path of the source if a person edited it."""

    source: Source
    builder: LibraryBuilder
    edited: Path | None = None


def _get_or_build(key: str, build: Build, cache: Cache) -> tuple[CacheEntry, bool]:
    """The entry of a unit, and whether it was built now."""
    entry = cache.get(key)
    if entry is not None:
        return entry, False
    # Not under the lock: what units share has one of its own, which may be the same.
    build.builder.prepare()
    # Who waits for a unit that is alike then finds its parts.
    with cache.building(code_key(build.source, build.builder)):
        entry = cache.get(key)
        if entry is not None:
            return entry, False
        compiled = Compiled(cache, build.builder.key_parts)
        made = _compile(key, build, compiled)
        entry = cache.put(key, made.files)
        compiled.remember(entry, made.compiled)
        return entry, True


def _read_edit(entry: CacheEntry) -> tuple[Path, str] | None:
    """The path and text of an entry's edited source; None if there is none that can be read."""
    path = entry.edited_source()
    try:
        return None if path is None else (path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        log("warning", "the edited source %s cannot be read: %s", path, error)
        return None


def _build_edited(
    key: str, path: Path, text: str, generated: Source, builder: LibraryBuilder, cache: Cache
) -> Library:
    """The binary of a source that a person edited: its own entry, keyed by the edited text."""
    log("warning", "running the edited source %s", path)
    source, lenient = replace(generated, text=text, sections=None, parsed=()), builder.lenient()
    build = Build(source, lenient, path)
    entry, built = _get_or_build(library_key(source, lenient), build, cache)
    return _library(key, cache.restore(entry, text.encode()), built, builder, path)


def _compile(key: str, build: Build, compiled: Compiled) -> Made:
    """Run the compiler; gives the files of the entry. Raises CompilerError, the source kept for the
    user to look at.
    """
    source, builder, cache = build.source, build.builder, compiled.cache
    meta = {
        "name": source.name,
        "language": source.language.name,
        **builder.meta,
        "symbols": source.symbols,
    }
    files = {
        builder.source_name: source.text.encode(),
        PLANS: source.plans.encode(),
        COMMAND: command_text(builder).encode(),
        META: json.dumps(meta, indent=1).encode(),
    }
    if source.parsed and not names_foreign(source.plans):
        files[PARSED] = write_plans(source.parsed)
    try:
        made = cache.work(lambda folder: builder.make(source, folder, compiled))
        return replace(made, files={**files, **made.files})
    except CompilerError as error:
        files["message.txt"] = str(error).encode()
        place = str(build.edited or _kept(key, builder.source_name, files, cache))
        raise CompilerError(
            f"the {builder.language} compiler failed on the unit of {source.name}.\n{error}\n\n"
            f"  command: {shlex.join(builder.command)}\n  source:  {place}"
        ) from None


def _kept(key: str, source_name: str, files: Mapping[str, bytes], cache: Cache) -> str:
    """Where the source of a failed build was put."""
    try:
        return str(cache.keep_failed(key, files) / source_name)
    except NoeiraError as refusal:
        return f"nowhere ({refusal})"
