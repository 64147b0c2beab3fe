"""File operations that survive other processes, sudden death and a disk that refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from noeira.log import log

TEMPORARY = "temporary"


def children(folder: Path) -> list[Path]:
    """What lies in a folder; nothing if it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def modified(path: Path) -> float:
    """When a file or folder was last changed, in seconds since 1970; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def folder_bytes(folder: Path) -> int:
    """The size of the files in a folder, without those of folders inside it."""
    try:
        with os.scandir(folder) as found:
            return sum(item.stat().st_size for item in found)
    except OSError:
        return 0


def touch(folder: Path, seconds: float) -> None:
    """Mark a folder as used now, at most once in so many seconds; a refusal does not matter."""
    if modified(folder) < time.time() - seconds:
        with suppress(OSError):
            os.utime(folder)


@contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """A new folder on the same disk as `root`, removed at the end unless it was renamed away.
    Raises OSError.
    """
    path = root / TEMPORARY / f"{os.getpid()}-{os.urandom(8).hex()}"
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        remove_tree(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it, as far as possible."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def remove_folder(root: Path, folder: Path) -> bool:
    """Take a folder away at once by a rename, then remove it; False if it was gone or could not be
    taken.
    """
    try:
        with temporary_folder(root) as temporary:
            os.rename(folder, temporary / folder.name)
        return True
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, which then takes the place of `path`: readers see the old content or the new
    one, never a part. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as `replacing` does. Raises OSError."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file `path`; without it after `seconds` of waiting, or where the file system
    has no locks.

    Safe without: every write ends in one rename. The lock only keeps processes from doing the same
    work twice. The system lets go of it when its holder dies.
    """
    from filelock import FileLock

    lock = FileLock(path, timeout=seconds)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        log("info", "going on without the lock %s: %s", path, error)
    try:
        yield
    finally:
        lock.release()
