"""The table of choices that a program is compiled with: given, a file, or NOEIRA_CHOICES."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from noeira import config
from noeira.errors import NoeiraError, OptionError, ParseError
from noeira.ir.choices import NO_CHOICES, Choices, Problem, parse_choices
from noeira.ir.plan import Stage

# What `compile` takes: a table or its file; None is the one of NOEIRA_CHOICES.
ChoicesLike: TypeAlias = "Choices | str | os.PathLike[str] | None"


def chosen_table(choices: ChoicesLike) -> Choices:
    """The table meant: by default that of NOEIRA_CHOICES, or an empty one.

    Raises OptionError if it is neither, NoeiraError if its file cannot be read, ParseError with the
    line that is wrong.
    """
    if isinstance(choices, Choices):
        return choices
    if choices is not None:
        if not isinstance(choices, (str, os.PathLike)):
            raise OptionError(f"choices must be a table of choices or its file, not {choices!r}")
        return read_choices(Path(choices))
    path = config.CHOICES.read()
    try:
        return NO_CHOICES if path is None else read_choices(path)
    except NoeiraError as error:
        raise type(error)(f"NOEIRA_CHOICES: {error}") from None


def read_choices(path: Path) -> Choices:
    """The table in a file. Raises NoeiraError or ParseError, as `chosen_table`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParseError(f"{path}, line 1: expected text, got bytes that are no UTF-8") from None
    except OSError as error:
        message = error.strerror or error
        raise NoeiraError(f"the choices {path} cannot be read: {message}") from None
    try:
        return parse_choices(text, check_row, path.name)
    except ParseError as error:
        raise ParseError(f"{path}, {error}") from None


def check_row(problem: Problem, stages: tuple[Stage, ...]) -> None:
    """Raises VerifyError unless the stages of a table's row fit its problem, or DeviceError for a
    target that there is not.
    """
    from noeira.codegen.targets import target_named

    target_named(problem.target).check_row(problem, stages)
