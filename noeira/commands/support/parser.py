"""The parser of the command line: one line for each mistake, with the word that was meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from noeira.commands.support.usage import meant, no_such
from noeira.habits import instead

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# What argparse says, and how it reads here.
WORDINGS = (
    # `argument --batch: must be …` reads better as `--batch must be …`.
    (r"argument (\S+): (must be .*)", r"\1 \2"),
    (r"argument (?:-h/)?(--\S+): expected one argument", r"\1 needs a value"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\1 does not go with \2"),
    (r"argument (\S+): ignored explicit argument (\S+)", r"\1 takes no value, such as \2"),
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument (\S+): (.*)", r"\1: \2"),
)


class Parser(argparse.ArgumentParser):
    """argparse's, but wrong usage is one line that points to the help, and options are written in
    full.
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, allow_abbrev=False, **options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        if found := re.fullmatch(r".*: invalid choice: '(.*)' \(choose from (.*)\)", message):
            message = no_such("action", found[1], found[2].replace("'", "").split(", "))
        for pattern, wording in WORDINGS:
            if found := re.fullmatch(pattern, message, re.DOTALL):
                message = found.expand(wording)
                break
        self.exit(2, f"noeira: {message} (see {self.prog} --help)\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        # argparse's own says nothing of a stream that takes no more.
        print(self.format_help(), end="", file=file)


def unexpected(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """What to say of words that are no arguments of a command."""
    option = next((word for word in words if word.startswith("-")), None)
    if option is None:
        return f"{words[0]} is one argument too many"
    name = option.partition("=")[0]
    if advice := instead(parser.prog, name):
        return f"there is no option {name}{advice}"
    known = re.findall(r"--[a-z][a-z-]*", parser.format_usage())
    return f"there is no option {name}{meant(name, known)}"
