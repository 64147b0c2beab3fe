"""Wrong usage, and values of options as they are written on the command line."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from noeira.errors import NoeiraError

T = TypeVar("T")


class UsageError(NoeiraError):
    """A command line that cannot be meant; the exit code is 2."""


def reading(action: Callable[[str], T], what: str) -> Callable[[str], T]:
    """An argparse type: `action`, whose refusal becomes argparse's message."""

    def read(text: str) -> T:
        try:
            return action(text)
        except NoeiraError as error:
            raise argparse.ArgumentTypeError(f"{text}: {error}") from None
        except (TypeError, ValueError):
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from None

    return read


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def sample_shapes(text: str) -> tuple[Any, ...]:
    """`3,32,32`, or several with `;` between them."""
    shapes = [tuple(positive(axis) for axis in part.split(",")) for part in text.split(";")]
    return shapes[0] if len(shapes) == 1 else tuple(shapes)


def named(text: str, known: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """`adam:lr=0.001,beta1=0.8` as what `adam` stands for and its options; names in any case.

    Raises UsageError that lists the names there are, ValueError for options of another form.
    """
    name, _, options = text.partition(":")
    chosen = in_any_case(name, known)
    found: dict[str, Any] = {}
    for option in options.split(",") if options else []:
        key, equals, value = option.partition("=")
        if not equals:
            raise UsageError(f"options are written {name}:key=value,key=value")
        found[key.strip()] = number(value)
    return known[chosen], found


def in_any_case(name: str, known: Iterable[str]) -> str:
    """The known name that is written so but for its case. Raises UsageError that lists them."""
    names = {text.lower(): text for text in known}
    if name.lower() not in names:
        raise UsageError(f"there are {', '.join(known)}")
    return names[name.lower()]


def number(text: str) -> Any:
    """A number, or true and false. Raises UsageError."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return ast.literal_eval(word)
    except (SyntaxError, ValueError):
        raise UsageError(f"{text!r} is not a number") from None
