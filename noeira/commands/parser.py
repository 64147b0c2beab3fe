"""The parser of the command line: one line for each mistake, with the word that was meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """argparse's, but wrong usage is one line that points to the help."""

    def error(self, message: str) -> NoReturn:
        # argparse's `argument --batch: must be …` reads better as `--batch must be …`.
        text = message.removeprefix("argument ").replace(": must be ", " must be ", 1)
        self.exit(2, f"noeira: {text} (see {self.prog} --help)\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        # argparse's own says nothing of a stream that takes no more.
        print(self.format_help(), end="", file=file)


def no_command(word: str, known: Iterable[str]) -> str:
    """What to say of a command that there is not."""
    return f"there is no command {word}{meant(word, known) or '; there are ' + ', '.join(known)}"


def unexpected(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """What to say of words that are no arguments of a command."""
    option = next((word for word in words if word.startswith("-")), None)
    if option is None:
        return f"{words[0]} is one argument too many"
    name = option.partition("=")[0]
    known = re.findall(r"--[a-z][a-z-]*", parser.format_usage())
    return f"there is no option {name}{meant(name, known)}"


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean explain?`, or nothing if no known word is like this one."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
