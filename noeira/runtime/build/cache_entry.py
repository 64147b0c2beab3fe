"""One cache entry on disk: a folder of files, their checksums, and edits of its source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from noeira.disk import (
    children,
    locked,
    modified,
    remove_folder,
    remove_tree,
    temporary_folder,
    touch,
)
from noeira.log import log

FORMAT = "noeira-cache 1"
CHECKSUMS = "checksums"
EDITED_SUFFIX = ".edited"
# Folders of the cache beside those of the entries, whose names are two hexadecimal digits.
EDITED, LOCKS = "edited", "locks"
LOCK_SECONDS = 60
# Files that people read and edit: a changed one beside intact others is an edit, not damage.
SOURCE_SUFFIXES = (".c", ".cu")


class DamagedEntry(Exception):
    """An entry whose files are not what was written; never leaves the cache."""


def digest_of(*parts: bytes | str) -> str:
    """64 hexadecimal digits over the parts, each preceded by its length so that no two lists of
    parts agree.
    """
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d\n" % len(data))
        state.update(data)
    return state.hexdigest()


@dataclass(frozen=True)
class CacheEntry:
    """A verified entry: its folder and the contents of its files as they were when it was read.

    `changed` names a source whose text is not the one that was stored; its content here is the
    changed one.
    """

    key: str
    folder: Path
    files: Mapping[str, bytes]
    changed: str | None = None

    def path(self, name: str) -> Path:
        """Where the file `name` lies."""
        return self.folder / name

    def read(self, name: str) -> bytes:
        """The verified content of the file `name`. Raises KeyError if the entry has none."""
        return self.files[name]

    def edited_source(self) -> Path | None:
        """The source as a person last edited it: in place, or kept earlier as `unit.c.edited`; None
        if there is none.
        """
        if self.changed is not None:
            return self.folder / self.changed
        return max(kept_edits(self.folder), key=modified, default=None)


def kept_edits(folder: Path) -> list[Path]:
    """The edits kept beside a source: `unit.c.edited`, `unit.c.edited.2`, …"""
    return [path for path in children(folder) if EDITED_SUFFIX in path.suffixes]


def entry_folder(root: Path, key: str) -> Path:
    """Where the entry of `key` lies under the cache folder `root`."""
    if not key.isalnum() or len(key) < 3:
        raise ValueError(f"a cache key is letters and digits, not {key!r}")
    return root / key[:2] / key


def free_edit_name(folder: Path, source_name: str) -> Path:
    """The first unused path among `unit.c.edited`, `unit.c.edited.2`, … in `folder`."""
    path = folder / (source_name + EDITED_SUFFIX)
    number = 2
    while path.exists():
        path = folder / f"{source_name}{EDITED_SUFFIX}.{number}"
        number += 1
    return path


def is_source(name: str) -> bool:
    """Whether `name` is a file that people edit."""
    return name.endswith(SOURCE_SUFFIXES)


def checksums_text(key: str, files: Mapping[str, bytes]) -> str:
    """The content of the `checksums` file: a head with the key, one line a file, and the digest of
    all that.
    """
    lines = [f"{FORMAT} {key}"]
    lines += [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(files.items())]
    body = "\n".join(lines) + "\n"
    return body + digest_of(body) + "\n"


def parse_checksums(key: str, text: str) -> dict[str, str]:
    """File names to digests. Raises DamagedEntry if the text is not exactly what `checksums_text`
    wrote for this key.
    """
    body, _, own = text.removesuffix("\n").rpartition("\n")
    body += "\n"
    head, *lines = body.splitlines()
    if own != digest_of(body) or head != f"{FORMAT} {key}":
        raise DamagedEntry("checksums")
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def read_entry(folder: Path, key: str) -> CacheEntry | None:
    """The entry in `folder` with every file verified; None if there is no such folder.

    Raises DamagedEntry if a file is missing, truncated or changed, save one source with text in it.
    """
    try:
        checksums = parse_checksums(key, (folder / CHECKSUMS).read_text(encoding="utf-8"))
        contents = {name: (folder / name).read_bytes() for name in checksums}
    except (OSError, UnicodeDecodeError) as error:
        if not folder.exists():
            return None
        raise DamagedEntry(str(error)) from None
    wrong = [
        name
        for name, data in contents.items()
        if hashlib.sha256(data).hexdigest() != checksums[name]
    ]
    if not wrong:
        return CacheEntry(key, folder, contents)
    if len(wrong) == 1 and is_source(wrong[0]) and is_text(contents[wrong[0]]):
        return CacheEntry(key, folder, contents, changed=wrong[0])
    raise DamagedEntry(", ".join(wrong))


def is_text(data: bytes) -> bool:
    """Whether a person may have written this: not empty, UTF-8, no zero bytes."""
    try:
        return bool(data.decode("utf-8").strip()) and b"\0" not in data
    except UnicodeDecodeError:
        return False


def possible_edits(folder: Path, key: str) -> Iterator[Path]:
    """Every file of an entry, damaged or not, that may hold a person's work: kept edits, and
    sources that are not as stored.

    If the checksums cannot be read, any source may be one: better one copy too many than a lost
    edit.
    """
    yield from kept_edits(folder)
    try:
        checksums = parse_checksums(key, (folder / CHECKSUMS).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, DamagedEntry):
        checksums = {}
    for path in children(folder):
        if not is_source(path.name):
            continue
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if is_text(data) and hashlib.sha256(data).hexdigest() != checksums.get(path.name):
            yield path


def store_entry(root: Path, key: str, files: Mapping[str, bytes]) -> CacheEntry:
    """Write an entry under the cache folder `root` and give the one that is there in the end.
    Raises OSError.

    An intact entry of that key is kept: what one key names is always the same.
    """
    folder = entry_folder(root, key)
    with temporary_folder(root) as temporary, locked(root / LOCKS / "entries.lock", LOCK_SECONDS):
        existing = intact_entry(root, folder, key)
        if existing is not None:
            touch(folder, 0)
            return existing
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        (temporary / CHECKSUMS).write_text(checksums_text(key, files), encoding="utf-8")
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(temporary, folder)
        except OSError:
            # Only possible where locks do not work: another process was faster.
            existing = intact_entry(root, folder, key)
            if existing is None:
                raise
            return existing
        bring_edits_back(root, folder, files)
    return CacheEntry(key, folder, dict(files))


def intact_entry(root: Path, folder: Path, key: str) -> CacheEntry | None:
    """The entry in `folder`, or None; a damaged one is removed."""
    try:
        return read_entry(folder, key)
    except DamagedEntry as damage:
        log("info", "cache entry %s is damaged (%s) and will be rebuilt", folder, damage)
        remove_entry(root, folder)
        return None


def remove_entry(root: Path, folder: Path) -> bool:
    """Remove an entry; what a person wrote in it goes to `edited/<key>/` first. False if it could
    not be removed.
    """
    shelter = root / EDITED / folder.name
    try:
        for path in list(possible_edits(folder, folder.name)):
            shelter.mkdir(parents=True, exist_ok=True)
            os.rename(path, free_edit_name(shelter, edited_name(path)))
    except OSError as error:
        log("info", "%s is kept: its edited source cannot be saved: %s", folder, error)
        return False
    return remove_folder(root, folder)


def bring_edits_back(root: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Put edits that outlived an earlier entry of this key beside its source, save those that are
    only a part of it.
    """
    shelter = root / EDITED / folder.name
    for path in children(shelter):
        name = edited_name(path)
        try:
            if files.get(name, b"").startswith(path.read_bytes()):
                path.unlink()
            else:
                os.rename(path, free_edit_name(folder, name))
        except OSError as error:
            log("info", "%s stays where it is: %s", path, error)
    if not children(shelter):
        remove_tree(shelter)


def edited_name(path: Path) -> str:
    """The source that an edit belongs to: `unit.c` for `unit.c`, `unit.c.edited` and
    `unit.c.edited.2`.
    """
    return path.name.split(EDITED_SUFFIX)[0]
