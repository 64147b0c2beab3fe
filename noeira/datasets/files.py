"""Where the files of a data set are: NOEIRA_DATA, the user's cache, else a download."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noeira import config
from noeira.datasets.idx import read_idx
from noeira.errors import DataError

# Seconds that a mirror may take to begin its answer, and later to send nothing.
PATIENCE = 4.0
# Seconds for which a download that failed is not tried again.
RESPITE = 3600.0

log = logging.getLogger("noeira")


class MissingData(DataError):
    """A data set that is nowhere to be had; says where it was looked for."""


@dataclass(frozen=True)
class DataFiles:
    """The idx files of one data set.

    `folder` is the name of their folder, `md5` maps each file's name without `.gz` to the checksum
    of its uncompressed bytes, and a mirror is a URL to which `NAME.gz` is appended.
    """

    folder: str
    md5: Mapping[str, str]
    mirrors: tuple[str, ...]
    megabytes: int

    def path(self, folder: Path, name: str) -> Path:
        """The file `name` in `folder`, or else `name.gz`, which need not be there."""
        plain = folder / name
        return plain if plain.is_file() else folder / f"{name}.gz"

    def missing(self, folder: Path) -> list[str]:
        """Names of the files that `folder` lacks, both plain and gzipped."""
        return [name for name in self.md5 if not self.path(folder, name).is_file()]


def find(files: DataFiles) -> Path:
    """The folder that holds all of `files`, downloaded if need be. Raises MissingData."""
    cache = config.user_folder() / files.folder
    data = config.DATA.read()
    given = [] if data is None else [data.expanduser().absolute() / files.folder]
    reasons = []
    for folder in [*given, cache]:
        missing = files.missing(folder)
        if not missing:
            return folder
        lacks = f"{folder} has no {' and no '.join(missing)}"
        reasons.append(lacks if folder.is_dir() else f"no {folder}")
    try:
        download(files, cache)
    except DataError as error:
        raise MissingData("; ".join([*reasons, str(error)])) from None
    return cache


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
    log.warning("noeira: downloading %s (%d MB) to %s", files.folder, files.megabytes, folder)
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
            fetched = Path(temporary, f"{name}.gz")
            fetch(f"{mirror}{fetched.name}", fetched)
            try:
                read_idx(fetched, files.md5[name])
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
