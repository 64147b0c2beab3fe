"""Colour and width, for terminals only."""

from __future__ import annotations

import os
import shutil
from typing import IO

CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


def coloured(stream: IO[str]) -> bool:
    """Whether colours are shown there: on a terminal, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def paint(text: str, colour: str, stream: IO[str]) -> str:
    """The text in a colour, where that can be seen."""
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if coloured(stream) else text


def width_of(stream: IO[str]) -> int:
    """The characters of a line of a terminal; 0 in a file or a pipe, where lines may be longer."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0
