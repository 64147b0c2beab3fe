"""Tables of ranges: which numbers the elements of a flat tensor have; those in no range have none.

A table without ranges says the same of all elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from noeira.errors import ShapeError, VerifyError
from noeira.ir.layouts import Layout, Range, aligned

Numbers = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Piece:
    """Elements start … stop, and of which of a table's kinds they are; -1 for those in no range."""

    start: int
    stop: int
    kind: int


def check_ranges(name: str, ranges: Iterable[Range], size: int) -> None:
    """Raises ShapeError if ranges are not in order inside so many elements, or overlap."""
    end = 0
    for span in ranges:
        if not end <= span.start < span.stop <= size:
            raise ShapeError(
                f"{name}: the range {span} must be inside 0:{size}, hold an element, and come "
                f"after {end}, where the one before it ends"
            )
        end = span.stop


def covered(ranges: Iterable[Range], size: int) -> int:
    """How many of so many elements a table says something of."""
    return sum(span.stop - span.start for span in ranges) or size


def distinct(ranges: tuple[Range, ...], apart: bool = False) -> tuple[Numbers, ...]:
    """The kinds of elements that a table tells apart: their numbers, those of equal ranges once;
    `apart`: each range is a kind of its own.
    """
    every = tuple(map(ordered, ranges)) or ((),)
    return every if apart else tuple(dict.fromkeys(every))


def pieces(ranges: tuple[Range, ...], size: int, apart: bool = False) -> tuple[Piece, ...]:
    """All elements in order, cut where the kind changes; a kind is its place in `distinct`."""
    kinds = {numbers: at for at, numbers in enumerate(distinct(ranges))}
    found, at = list[Piece](), 0
    for number, span in enumerate(ranges or (Range(0, size),)):
        if at < span.start:
            found.append(Piece(at, span.start, -1))
        kind = number if apart else kinds[ordered(span)]
        start = found.pop().start if found and found[-1].kind == kind else span.start
        found.append(Piece(start, span.stop, kind))
        at = span.stop
    return (*found, Piece(at, size, -1)) if at < size else tuple(found)


def ordered(span: Range) -> Numbers:
    """The numbers of a range by name."""
    return tuple(sorted(span.numbers))


def ranges_of(
    layout: Layout, numbers: Mapping[str, Numbers], apart: bool = False
) -> tuple[Range, ...]:
    """The table that gives members of a layout their numbers, neighbours with equal ones in one
    range unless members are to be `apart`; those that are not mentioned are in none. The gap behind
    a member goes with it.

    Raises VerifyError if no member is mentioned: an empty table would mean all.
    """
    if not numbers:
        raise VerifyError(f"no member of @{layout.name} is in a range: nothing would change")
    found = list[Range]()
    for member in (m for m in layout.members if m.name in numbers):
        stop, own = min(aligned(member.end), layout.size), numbers[member.name]
        before = found[-1] if found and not apart else None
        if before and before.stop == member.offset and before.numbers == own:
            found[-1] = Range(before.start, stop, own)
        else:
            found.append(Range(member.offset, stop, own))
    return () if found == [Range(0, layout.size)] else tuple(found)
