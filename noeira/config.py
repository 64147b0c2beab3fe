"""Every NOEIRA_* setting, read from the environment at the moment it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from noeira.errors import NoeiraError

T = TypeVar("T")

# The folder of compiled templates in that of what is built.
TEMPLATES = "templates"
# More threads than any machine has processors are a mistake.
MOST_THREADS = 1024


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable: `read()` gives its value, converted, or its default."""

    name: str
    default: T
    convert: Callable[[str], T]
    doc: str

    def read(self) -> T:
        """The value now. Raises NoeiraError if the text cannot be converted."""
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.convert(text)
        except ValueError as error:
            raise NoeiraError(f"{self.name}={text}: {error}. {self.doc}") from None


def switch(text: str) -> bool:
    """`1`, `true`, `yes`, `on` or their opposites."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected 1 or 0")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(text)


def threads(text: str) -> int:
    """A whole number from 1 to MOST_THREADS."""
    if positive(text) > MOST_THREADS:
        raise ValueError(f"expected at most {MOST_THREADS}")
    return int(text)


def convolution(text: str) -> str:
    """`auto`, `direct` or `winograd2`."""
    if text not in ("auto", "direct", "winograd2"):
        raise ValueError("expected auto, direct or winograd2")
    return text


def check_settings() -> None:
    """Raises NoeiraError for a setting that cannot be read, before hours of work need it."""
    for setting in SETTINGS:
        setting.read()


def unknown_settings() -> Iterator[str]:
    """A sentence for each variable called NOEIRA_… that is no setting."""
    known = [setting.name for setting in SETTINGS]
    for name in sorted(os.environ):
        if name.startswith("NOEIRA_") and name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1, cutoff=0.8)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            yield f"{name} is no setting; {hint}"


THREADS: Setting[int | None] = Setting(
    "NOEIRA_THREADS",
    None,
    threads,
    "Threads a program uses; default: the processors it may run on.",
)
CACHE: Setting[Path | None] = Setting(
    "NOEIRA_CACHE", None, Path, "Folder of built programs; default: the user's cache folder."
)
CACHE_MEGABYTES: Setting[int] = Setting(
    "NOEIRA_CACHE_MEGABYTES",
    512,
    positive,
    "The cache is kept under this size; the entries used longest ago go first.",
)
DATA: Setting[Path | None] = Setting(
    "NOEIRA_DATA", None, Path, "Folder with one folder a data set (`mnist/`, …), looked at first."
)
OFFLINE: Setting[bool] = Setting("NOEIRA_OFFLINE", False, switch, "1: never download anything.")
DUMP: Setting[Path | None] = Setting(
    "NOEIRA_DUMP",
    None,
    Path,
    "Folder that receives every stage of every `noeira.compile`, numbered; for commands there is "
    "`noeira dump`.",
)
CC: Setting[str | None] = Setting(
    "CC",
    None,
    str,
    "The C compiler to use, with its arguments; they come first on its command line, so where they "
    "contradict noeira's own, such as -O3 and -march=native, noeira's win.",
)
CXX: Setting[str | None] = Setting(
    "CXX",
    None,
    str,
    "The C++ compiler that CUDA is run on the CPU with (`cuda-cpu`), with its arguments.",
)
EDITED: Setting[bool] = Setting(
    "NOEIRA_EDITED",
    False,
    switch,
    "1: a cached source that was edited by hand is built and run in place of the generated one.",
)
CHOICES: Setting[Path | None] = Setting(
    "NOEIRA_CHOICES",
    None,
    Path,
    "Table of tuned choices, as `noeira tune` writes it, for every compile that is not given one.",
)
CONV: Setting[str] = Setting(
    "NOEIRA_CONV",
    "auto",
    convolution,
    "How C makes 3x3 convolutions with stride 1 in f32: auto, by Winograd's F(4x4, 3x3) where that "
    "is faster; direct, never so; winograd2, by F(2x2, 3x3), which is slower and more exact.",
)
SETTINGS: tuple[Setting, ...] = (
    THREADS,
    CACHE,
    CACHE_MEGABYTES,
    DATA,
    OFFLINE,
    DUMP,
    CC,
    CXX,
    EDITED,
    CHOICES,
    CONV,
)


def cache_folder() -> Path:
    """The folder of what is built: NOEIRA_CACHE, else `noeira` in the user's cache folder."""
    chosen = CACHE.read()
    return user_folder() if chosen is None else chosen.expanduser().absolute()


def user_folder() -> Path:
    """`noeira` in the user's cache folder, as the system has it."""
    import platformdirs

    return platformdirs.user_cache_path("noeira", appauthor=False)
