"""Where the files of a data set are: NOEIRA_DATA, the user's cache, else a download."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noeira import config
from noeira.errors import DataError
from noeira.log import log

# Seconds that a mirror may take to begin its answer, and later to send nothing.
PATIENCE = 4.0
# Seconds for which a download that failed is not tried again.
RESPITE = 3600.0


class MissingData(DataError):
    """A data set that is nowhere to be had; says where it was looked for."""


@dataclass(frozen=True)
class DataFiles:
    """The files of one data set, in whatever format.

    `folder` is the name of their folder, `md5` maps each file's name without `.gz` to the checksum
    of its uncompressed bytes, and a mirror is a URL to which `NAME.gz` is appended. Of files that
    are not `gzipped`, such as archives, both are of the file as it is. `system` is a folder where
    a package of the operating system puts the files.
    """

    folder: str
    md5: Mapping[str, str]
    mirrors: tuple[str, ...]
    megabytes: int
    gzipped: bool = True
    system: Path | None = None

    def fetched(self, name: str) -> str:
        """What the file of that name is called where it is downloaded from, and afterwards."""
        return f"{name}.gz" if self.gzipped else name

    def path(self, folder: Path, name: str) -> Path:
        """The file `name` in `folder`, or else `name.gz`, which need not be there."""
        plain = folder / name
        return plain if plain.is_file() else folder / self.fetched(name)

    def missing(self, folder: Path) -> list[str]:
        """Names of the files that `folder` lacks, both plain and gzipped."""
        return [name for name in self.md5 if not self.path(folder, name).is_file()]


@dataclass(frozen=True)
class Place:
    """A folder that files are looked for in, and those that it lacks."""

    folder: Path
    missing: tuple[str, ...]


def where(files: DataFiles) -> tuple[Place, ...]:
    """Where files are looked for, in order: in NOEIRA_DATA, in what the operating system has, then
    in the cache, which a download fills.
    """
    given = config.DATA.read()
    named = [] if given is None else [given.expanduser().absolute() / files.folder]
    installed = [] if files.system is None else [files.system]
    folders = (*named, *installed, cache(files))
    return tuple(Place(folder, tuple(files.missing(folder))) for folder in folders)


def cache(files: DataFiles) -> Path:
    """The folder of a data set in the user's cache."""
    return config.user_folder() / files.folder


def find(files: DataFiles) -> Path:
    """The folder that holds all of `files`, downloaded if need be. Raises MissingData."""
    reasons, places = [], where(files)
    for place in places:
        if not place.missing:
            return place.folder
        lacks = f"{place.folder} has no {' and no '.join(place.missing)}"
        reasons.append(lacks if place.folder.is_dir() else f"no {place.folder}")
    try:
        download(files, places[-1].folder)
    except DataError as error:
        raise MissingData("; ".join([*reasons, str(error)])) from None
    return places[-1].folder


def download(files: DataFiles, folder: Path) -> None:
    """Fetch what `folder` lacks from the first mirror that gives it.

    Raises DataError if that is not allowed (NOEIRA_OFFLINE), not possible (extra `data`), or fails,
    now or shortly before.
    """
    if config.OFFLINE.read():
        raise DataError("NOEIRA_OFFLINE forbids a download")
    if importlib.util.find_spec("pooch") is None:
        raise DataError("a download needs `pip install 'noeira[data]'`")
    if known := failure(folder):
        raise DataError(f"a download failed less than an hour ago: {known}")
    # A warning, as that is the level people see: this takes time, network and disk.
    place = files.folder, files.megabytes, folder
    log("warning", "noeira: downloading %s (%d MB) to %s", *place)
    failures = []
    for mirror in files.mirrors:
        try:
            return fetch_missing(files, mirror, folder)
        except DataError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{folder} cannot be written: {error}")
    found = "; ".join(failures)
    with suppress(OSError):
        failure_note(folder).write_text(found, encoding="utf-8")
    raise DataError(found)


def failure_note(folder: Path) -> Path:
    """The file that remembers why a download failed; removing it lets the next one be tried."""
    return folder.with_name(f"{folder.name}.failed")


def failure(folder: Path) -> str:
    """Why the last download failed, if that was a short time ago."""
    note = failure_note(folder)
    try:
        lately = time.time() - note.stat().st_mtime < RESPITE
        return note.read_text(encoding="utf-8") if lately else ""
    except OSError:
        return ""


def fetch_missing(files: DataFiles, mirror: str, folder: Path) -> None:
    """Put the files that `folder` lacks there, each checked first, and whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
        for name in files.missing(folder):
            fetched = Path(temporary, files.fetched(name))
            fetch(f"{mirror}{fetched.name}", fetched)
            try:
                content = uncompressed(fetched) if files.gzipped else fetched.read_bytes()
                check_md5(fetched, content, files.md5[name])
            except DataError:
                raise DataError(f"{mirror}{fetched.name} is not the file it should be") from None
            os.replace(fetched, folder / fetched.name)


def fetch(url: str, path: Path) -> None:
    """Download `url` to the new file `path`. Raises DataError.

    Looking up a name and trying its addresses one after another have no time limit of their own, so
    they run in a thread that is left behind if nothing has come once the patience is over.
    """
    import pooch

    failure: list[Exception] = []

    def attempt() -> None:
        try:
            pooch.HTTPDownloader(timeout=PATIENCE)(url, file, None)
        except Exception as error:  # whatever it is, it is this mirror's failure
            failure.append(error)

    with path.open("xb", buffering=0) as file:
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive() and path.stat().st_size == 0:
            raise DataError(f"{url} did not answer in {PATIENCE:g} s")
        thread.join()
    if failure:
        raise DataError(f"{url} failed: {type(failure[0]).__name__}")


def uncompressed(path: Path) -> bytes:
    """The bytes of a file, gunzipped if its name ends in `.gz`. Raises DataError."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, f"it cannot be read: {error}") from None


def check_md5(path: Path, content: bytes, md5: str) -> None:
    """Raises DataError if the uncompressed bytes of a file have another checksum."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise damaged(path, f"the MD5 of its uncompressed bytes is {found}, not {md5}")


def absent(name: str, files: DataFiles, reasons: str, wanted: str) -> MissingData:
    """The error for a data set that is nowhere: where it was looked for, and what would be one."""
    return MissingData(
        f"{name} is not on this machine: {reasons}. It is downloaded at first use (pip install "
        f"'noeira[data]'), or NOEIRA_DATA names a folder that has, in {files.folder}/, {wanted}."
    )


def damaged(path: Path, wrong: str) -> DataError:
    """The error for a data file: its name, what is wrong, what to do."""
    return DataError(f"{path}: {wrong}. Delete the file, or replace it with an intact copy.")
