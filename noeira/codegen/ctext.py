"""C text of whole-number arithmetic, without what is known to be 0 or 1."""

from __future__ import annotations

# Things up to which an index is an int, with room for what is added to it.
INT_COUNT = 2**30


def index_type(count: int) -> str:
    """The C type that numbers so many things on a GPU: `int` is the faster one."""
    return "int" if count < INT_COUNT else "long long"


def times(text: str, factor: int) -> str:
    """C text for a product; text is one factor, or several."""
    if text == "0" or factor == 0:
        return "0"
    return text if factor == 1 else f"{text} * {factor}"


def quotient(text: str, divisor: int, bound: int) -> str:
    """C text for `text / divisor`, where text < bound."""
    if text == "0" or bound <= divisor:
        return "0"
    return text if divisor == 1 else f"{text} / {divisor}"


def remainder(text: str, divisor: int, bound: int) -> str:
    """C text for `text % divisor`, where text < bound."""
    if text == "0" or divisor == 1:
        return "0"
    return text if bound <= divisor else f"{text} % {divisor}"


def plus(*terms: str) -> str:
    """C text for the sum of the terms, without those that are 0."""
    return " + ".join(term for term in terms if term != "0") or "0"


def added(*terms: str | int) -> str:
    """C text that adds the terms to what stands before it; empty if all are 0."""
    total = plus(*map(str, terms))
    return "" if total == "0" else f" + {total}"
