"""The cache of built programs: verified entries and short notes, shared by many processes."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from noeira import config
from noeira.config import TEMPLATES
from noeira.disk import (
    TEMPORARY,
    children,
    folder_bytes,
    locked,
    modified,
    remove_folder,
    remove_tree,
    replace_file,
    temporary_folder,
    touch,
)
from noeira.errors import NoeiraError
from noeira.log import log
from noeira.runtime.build.cache_entry import (
    EDITED,
    LOCK_SECONDS,
    LOCKS,
    CacheEntry,
    digest_of,
    entry_folder,
    free_edit_name,
    intact_entry,
    kept_edits,
    remove_entry,
    store_entry,
)
from noeira.runtime.build.process import BUILD_SECONDS
from noeira.runtime.fork import Lock

T = TypeVar("T")

TOUCH_SECONDS = 60
# An entry in use may have been touched up to TOUCH_SECONDS ago, so twice that spares all used in
# the last minute.
SPARE_SECONDS = 2 * TOUCH_SECONDS
# Older temporary folders were left by killed processes: no build lasts as long.
LEFTOVER_SECONDS = 6 * BUILD_SECONDS
NOTES_KEPT = 4096
# noeira has fewer than a hundred templates; those of each Python and Jinja are compiled apart.
TEMPLATES_KEPT = 1024
NOTES, FAILED = "notes", "failed"


@dataclass(frozen=True)
class Stats:
    """What a cache holds; `writable` tells whether new programs stay, `limit_bytes` what it may
    grow to.
    """

    folder: Path
    entries: int
    bytes: int
    failed: int
    notes: int
    edits: int
    limit_bytes: int
    writable: bool


class Cache:
    """Entries by key, each a folder of files written once; nothing in it is ever changed in place.

    Whatever happens to the folder, no method raises because of it: what is damaged counts as not
    there, and what cannot be written there goes to a private folder that lives as long as this
    process. `folder` None means the user's choice.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder).absolute() if folder is not None else config.cache_folder()
        self._private: tuple[int, Path] | None = None
        self._held: set[str] = set()
        self._mutex = Lock()

    def get(self, key: str) -> CacheEntry | None:
        """The entry of that key, all its files verified, or None; a damaged one is dropped."""
        for root in self._roots():
            folder = entry_folder(root, key)
            entry = intact_entry(root, folder, key)
            if entry is not None:
                touch(folder, TOUCH_SECONDS)
                self._held.add(key)
                return entry
        return None

    def put(self, key: str, files: Mapping[str, bytes | Path]) -> CacheEntry:
        """Store the files, given as contents or as paths to copy, and return the entry that is now
        there.

        If another process stored the same key meanwhile, its entry is kept and returned. Raises
        NoeiraError only when neither the cache nor a temporary folder can be written.
        """
        contents = {
            name: data.read_bytes() if isinstance(data, Path) else data
            for name, data in files.items()
        }
        entry = self._write(lambda root: store_entry(root, key, contents))
        self._held.add(key)
        self._evict()
        return entry

    def restore(self, entry: CacheEntry, generated: bytes) -> CacheEntry:
        """Put the generated text back in place of an edited source, which is kept beside it as
        `unit.c.edited`.
        """
        name = entry.changed
        if name is None:
            return entry
        source = entry.folder / name
        try:
            with locked(entry.folder.parent.parent / LOCKS / "entries.lock", LOCK_SECONDS):
                # Read again: another process may have restored it. A part of the generated text is
                # damage.
                if not generated.startswith(source.read_bytes()):
                    kept = free_edit_name(entry.folder, name)
                    os.rename(source, kept)
                    log(
                        "warning",
                        "%s was edited: the edit is now %s; NOEIRA_EDITED=1 runs it",
                        source,
                        kept,
                    )
                replace_file(source, generated)
        except OSError as error:
            log("info", "%s could not be restored: %s", source, error)
        return CacheEntry(entry.key, entry.folder, {**entry.files, name: generated})

    def work(self, action: Callable[[Path], T]) -> T:
        """Run `action` in a temporary folder on the cache's disk; if the disk refuses (OSError),
        again in another.

        Raises NoeiraError if both refuse, and what else `action` raises.
        """

        def in_folder(root: Path) -> T:
            with temporary_folder(root) as folder:
                return action(folder)

        return self._write(in_folder)

    def keep_failed(self, key: str, files: Mapping[str, bytes]) -> Path:
        """Keep the files of a build that failed, for the user to look at; gives their folder."""
        return self._write(lambda root: store_failed(root, key, files))

    def remember(self, key: str, text: str) -> None:
        """Note `text` under `key`; a note that cannot be written is only a slower next start."""
        data = (digest_of(key, text) + "\n" + text).encode()
        try:
            self._write(lambda root: replace_file(note_file(root, key), data))
        except NoeiraError as error:
            log("info", "%s", error)

    def recall(self, key: str) -> str | None:
        """The text noted under `key`, or None if there is none or it is damaged."""
        for root in self._roots():
            try:
                digest, _, text = note_file(root, key).read_bytes().decode().partition("\n")
            except (OSError, UnicodeDecodeError):
                continue
            if digest == digest_of(key, text):
                return text
        return None

    @contextmanager
    def building(self, key: str, seconds: float = BUILD_SECONDS) -> Iterator[None]:
        """Let one process at a time build `key`; after `seconds`, or where locks do not work,
        each builds for itself.
        """
        if self._private is not None:
            yield
            return
        with locked(self.folder / LOCKS / f"{key[:2]}.lock", seconds):
            yield

    def stats(self) -> Stats:
        """Counts and sizes; the folder need not exist."""
        entries = list(entry_folders(self.folder))
        failed = children(self.folder / FAILED)
        notes = [note for part in children(self.folder / NOTES) for note in children(part)]
        edits = [kept for folder in entries for kept in kept_edits(folder)]
        edits += [kept for folder in children(self.folder / EDITED) for kept in children(folder)]
        size = sum(map(folder_bytes, entries)) + sum(map(folder_bytes, failed))
        limit = config.CACHE_MEGABYTES.read() << 20
        return Stats(
            self.folder,
            len(entries),
            size,
            len(failed),
            len(notes),
            len(edits),
            limit,
            self.writable(),
        )

    def clear(self) -> int:
        """Remove every entry, failed build, note and compiled template, and give the number of
        entries; edits move to `edited/`.
        """
        removed = 0
        for root in self._roots():
            for folder in list(entry_folders(root)):
                removed += remove_entry(root, folder)
            for name in (NOTES, FAILED, TEMPLATES):
                remove_tree(root / name)
            remove_leftovers(root)
        self._held.clear()
        return removed

    def writable(self) -> bool:
        """Whether a file can be made in the cache's folder."""
        try:
            with temporary_folder(self.folder) as folder:
                (folder / "probe").write_bytes(b"x")
            return True
        except OSError:
            return False

    def private_folder(self) -> Path:
        """A folder of this process alone, removed when it ends. Raises NoeiraError if none can be
        made.
        """
        with self._mutex:
            if self._private is None or self._private[0] != os.getpid():
                import tempfile

                try:
                    path = Path(tempfile.mkdtemp(prefix="noeira-"))
                except OSError as error:
                    raise NoeiraError(
                        f"no folder can be written: neither the cache {self.folder} nor a "
                        f"temporary one ({error}). "
                        "Set NOEIRA_CACHE or TMPDIR to a folder with free space"
                    ) from None
                self._private = os.getpid(), path
                atexit.register(remove_private, os.getpid(), path)
            return self._private[1]

    def _roots(self) -> list[Path]:
        """The folders to read from."""
        return [self.folder] if self._private is None else [self.folder, self._private[1]]

    def _write(self, action: Callable[[Path], T]) -> T:
        """Run `action` on the cache's folder or, once that has failed, on the private one."""
        if self._private is None:
            try:
                return action(self.folder)
            except OSError as error:
                log(
                    "warning",
                    "the cache %s cannot be written (%s): what is built now lasts only as long as "
                    "this process; NOEIRA_CACHE names another folder",
                    self.folder,
                    error.strerror or error,
                )
        private = self.private_folder()
        try:
            return action(private)
        except OSError as error:
            raise NoeiraError(
                f"neither the cache {self.folder} nor {private} can be written: {error}. "
                "Set NOEIRA_CACHE or TMPDIR to a folder with free space"
            ) from None

    def _evict(self) -> None:
        """Remove what was used longest ago until the cache is under its limit, then what killed
        processes left.
        """
        limit = config.CACHE_MEGABYTES.read() << 20
        folders = [*entry_folders(self.folder), *children(self.folder / FAILED)]
        sizes = {folder: folder_bytes(folder) for folder in folders}
        total = sum(sizes.values())
        for folder in sorted(folders, key=modified):
            if total <= limit:
                break
            if folder.name in self._held or modified(folder) > time.time() - SPARE_SECONDS:
                continue
            remove = remove_folder if folder.parent.name == FAILED else remove_entry
            if remove(self.folder, folder):
                total -= sizes[folder]
        remove_leftovers(self.folder)
        notes = [note for part in children(self.folder / NOTES) for note in children(part)]
        remove_oldest(notes, NOTES_KEPT)
        remove_oldest(children(self.folder / TEMPLATES), TEMPLATES_KEPT)


@lru_cache(maxsize=8)
def _cache_of(folder: Path) -> Cache:
    return Cache(folder)


def open_cache() -> Cache:
    """This process's one Cache on the folder that the settings name now."""
    return _cache_of(config.cache_folder())


def entry_folders(root: Path) -> Iterator[Path]:
    """The folders of all entries, whatever their state."""
    for part in children(root):
        # Other folders there are not entries: notes, locks, and data sets in the user's cache.
        if len(part.name) == 2 and set(part.name) <= set("0123456789abcdef"):
            yield from children(part)


def note_file(root: Path, key: str) -> Path:
    """Where the note of `key` lies."""
    return entry_folder(root / NOTES, key)


def store_failed(root: Path, key: str, files: Mapping[str, bytes]) -> Path:
    """Write the files of a failed build under `failed/<key>/`, over those of an earlier try. Raises
    OSError.
    """
    for name, data in files.items():
        replace_file(root / FAILED / key / name, data)
    return root / FAILED / key


def remove_leftovers(root: Path) -> None:
    """Remove the temporary folders of processes that were killed."""
    for folder in children(root / TEMPORARY):
        if modified(folder) < time.time() - LEFTOVER_SECONDS:
            remove_tree(folder)


def remove_oldest(files: Sequence[Path], kept: int) -> None:
    """Remove files but those changed last, so many of them."""
    for file in sorted(files, key=modified)[: max(0, len(files) - kept)]:
        with suppress(OSError):
            file.unlink()


def remove_private(process: int, folder: Path) -> None:
    """Remove a private folder when the process that made it ends, not one forked from that."""
    if os.getpid() == process:
        remove_tree(folder)
