"""Wrong usage, and values of options as they are written on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from noeira.errors import NoeiraError

T = TypeVar("T")

WHOLE = "a whole number of at least 1"
SECONDS = "a number of seconds above 0"
# Names that are still listed when one of them is meant.
SHORT = 10
# Of longer lists so many are named.
LISTED = 20


class UsageError(NoeiraError):
    """A command line that cannot be meant; the exit code is 2."""


def reading(action: Callable[[str], T], what: str) -> Callable[[str], T]:
    """An argparse type: `action`, whose refusal becomes argparse's message."""

    def read(text: str) -> T:
        try:
            return action(text)
        except NoeiraError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except (TypeError, ValueError):
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from None

    return read


def one_of(names: Iterable[str], what: str) -> dict[str, Any]:
    """How argparse is told of an option that takes one of some names, in any case."""
    known = tuple(names)
    return {
        "type": reading(lambda text: known_name(text, known, what), what),
        "metavar": f"{{{','.join(known)}}}",
    }


def known_name(name: str, known: Iterable[str], what: str) -> str:
    """The known name that is written so but for its case. Raises UsageError that lists them."""
    names = {text.lower(): text for text in known}
    if name.lower() not in names:
        raise UsageError(no_such(what, name, names.values()))
    return names[name.lower()]


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """`there is no entry fot; did you mean fit? There are forward, fit`"""
    names = list(known)
    hint = meant(name, names)
    if hint and len(names) > SHORT:
        return f"there is no {what} {name}{hint}"
    more = f", … and {len(names) - LISTED} more" if len(names) > LISTED else ""
    listed = f"here are {', '.join(names[:LISTED])}{more}" if names else "here is none"
    return f"there is no {what} {name}{f'{hint} T' if hint else '; t'}{listed}"


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean explain?`, or nothing if no known word is like this one."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like this one, or nothing."""
    lowered = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(lowered), n=1)
    return lowered[near[0]] if near else ""


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def duration(text: str) -> float:
    """A number of seconds above 0."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def sample_shapes(text: str) -> tuple[Any, ...]:
    """`3,32,32`, or several with `;` between them; each may have the brackets of Python."""
    parts = [part.strip(" (),") for part in text.split(";")]
    shapes = [tuple(positive(axis) for axis in part.split(",")) for part in parts]
    return shapes[0] if len(shapes) == 1 else tuple(shapes)
