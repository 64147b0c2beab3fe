"""What makes a unit of one language: all that the building of units needs to know about it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Protocol

from noeira.codegen.source import Source
from noeira.runtime.build.compiled import Compiled, Made

# The files of an entry that say how to make its binary by hand, and what plans it serves.
COMMAND, PLANS = "build.txt", "unit.plan"


class LibraryBuilder(Protocol):
    """A compiler with all that it is asked for, as `runtime/build/library.py` drives it."""

    @property
    def language(self) -> str:
        """What its compiler compiles, for messages: `C`."""
        ...

    @property
    def source_name(self) -> str:
        """The file with the text in a cache entry: `unit.c`."""
        ...

    @property
    def binary_name(self) -> str:
        """The file that is loaded: `unit.so`."""
        ...

    @property
    def key_parts(self) -> tuple[str, ...]:
        """What decides, besides the source, what is made."""
        ...

    @property
    def command(self) -> tuple[str, ...]:
        """The words that make the binary of the source in a folder, for a person to run."""
        ...

    @property
    def head(self) -> str:
        """Which compiler, and for what processor."""
        ...

    @property
    def meta(self) -> dict[str, str]:
        """The same, for tools to read."""
        ...

    def prepare(self) -> None:
        """Build what units share, if that is not done: before `make`, while no lock is held."""
        ...

    def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
        """The binary, and other files of the entry, made in a folder; what was compiled before need
        not be compiled again. A file given here goes before one of the same name that every entry
        has.

        Raises CompilerError with the compiler's message, OSError if the disk refuses.
        """
        ...

    def lenient(self) -> LibraryBuilder:
        """The same, with warnings no errors: for sources that a person edited."""
        ...


def command_text(builder: LibraryBuilder) -> str:
    """How to make the binary by hand."""
    return f"# {builder.head}; in this folder:\n{shlex.join(builder.command)}\n"
