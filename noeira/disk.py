"""File operations that survive other processes, sudden death and a disk that refuses."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from noeira.log import log

TEMPORARY = "temporary"
# What a folder says that cannot be flushed, or not by this user.
CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)


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
    temporary = temporary_beside(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_beside(path: Path) -> Path:
    """A new name for a file that is to take the place of `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as `replacing` does. Raises OSError."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing_for_good(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which then takes the place of `path` as with `replacing`; when this ends, it
    is on the disk, whatever happens to the machine afterwards. Raises OSError.

    For files that cannot be made again: it waits for the disk, which caches need not. A writer that
    is killed leaves its temporary file; the next writer of `path` removes it.
    """
    new = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    temporary, file = held_beside(path)
    with file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "posix":
                # Elsewhere no open file is renamed, and there are no locks to hold on to.
                file.close()
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    for folder in (path.parent, *(folder.parent for folder in new)):
        flush_folder(folder)


def held_beside(path: Path) -> tuple[Path, BinaryIO]:
    """A new file for `replacing_for_good`, with a lock that says that its writer is alive."""
    while True:
        temporary = temporary_beside(path)
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        # Where the file system has no locks, nothing is taken for abandoned.
        with suppress(OSError):
            lock_file(opened, wait=True)
        # Before the lock was there, another writer may have taken the file for abandoned.
        if os.fstat(opened).st_nlink:
            return temporary, os.fdopen(opened, "wb")
        os.close(opened)


def lock_file(opened: int, wait: bool) -> None:
    """Hold the lock of an open file until it is closed or its process dies. Raises OSError if
    another one holds it, or where there are no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise OSError(str(error)) from None
    fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_abandoned(path: Path) -> None:
    """Remove the temporary files of writers of `path` that died: nobody holds their locks."""
    name = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}")
    for found in children(path.parent):
        if name.fullmatch(found.name):
            with suppress(OSError), open(found, "rb") as file:
                lock_file(file.fileno(), wait=False)
                found.unlink()


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where it can be told to. Raises OSError."""
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in CANNOT_FLUSH:
            raise


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
