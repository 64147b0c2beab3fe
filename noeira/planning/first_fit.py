"""First fit by size: an offset for everything that lives from one call to another, so that nothing
alive overlaps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from noeira.ir.types import padded

# Bytes low … high, high not included.
Interval = tuple[int, int]


@dataclass(frozen=True)
class Span:
    """Memory that is needed from one call to another."""

    name: str
    root: str
    size: int
    first: int
    last: int


def first_fit(spans: list[Span]) -> tuple[dict[str, int], int]:
    """An offset for each span so that no two that live at the same time overlap, and the bytes
    needed in all.

    The largest is placed first, each at the lowest aligned place that is free during its life.
    """
    taken = Timeline(max((span.last for span in spans), default=0) + 1)
    offsets: dict[str, int] = {}
    arena = 0
    for span in sorted(spans, key=lambda s: (-s.size, s.first, s.name)):
        size = padded(span.size)
        offset = taken.free(span.first, span.last, size)
        taken.take(span.first, span.last, (offset, offset + size))
        offsets[span.name] = offset
        arena = max(arena, offset + size)
    return offsets, arena


def collision(placed: Iterable[tuple[Span, int]]) -> tuple[Span, Span] | None:
    """Two spans, given with their offsets, that have some byte at the same call; None if there are
    none.
    """
    spans = [(span, offset) for span, offset in placed if span.size]
    # What ends before a call goes before what begins with it comes.
    events = [(span.first, True, i) for i, (span, _) in enumerate(spans)]
    events += [(span.last + 1, False, i) for i, (span, _) in enumerate(spans)]
    alive = list[tuple[int, int]]()
    for _, begins, number in sorted(events):
        span, offset = spans[number]
        at = bisect_left(alive, (offset, number))
        if not begins:
            del alive[at]
            continue
        for low, other in alive[max(at - 1, 0) : at + 1]:
            before = spans[other][0]
            if low < offset + padded(span.size) and offset < low + padded(before.size):
                return before, span
        alive.insert(at, (offset, number))
    return None


class Timeline:
    """Which bytes are taken at which call: a segment tree over calls, so that n spans cost about n
    log² n.

    Node 1 stands for all calls, nodes 2i and 2i + 1 for the halves of node i. Of each node,
    `throughout` is what spans take that live during all its calls (and not all of its parent's),
    and `sometime` what is taken at any of them.
    """

    def __init__(self, calls: int) -> None:
        self.leaves = 1 << (calls - 1).bit_length()
        self.throughout: list[list[Interval]] = [[] for _ in range(2 * self.leaves)]
        self.sometime: list[list[Interval]] = [[] for _ in range(2 * self.leaves)]

    def cover(self, first: int, last: int) -> Iterator[int]:
        """The fewest nodes that stand for these calls."""
        low, high = first + self.leaves, last + self.leaves + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low, high = low // 2, high // 2

    def free(self, first: int, last: int, size: int) -> int:
        """The lowest offset of so many bytes that are free during these calls."""
        busy, above = list[Interval](), set[int]()
        for node in self.cover(first, last):
            busy += self.sometime[node]
            while (node := node // 2) and node not in above:
                above.add(node)
                busy += self.throughout[node]
        offset = 0
        for low, high in sorted(busy):
            if offset + size <= low:
                break
            offset = max(offset, high)
        return offset

    def take(self, first: int, last: int, interval: Interval) -> None:
        """Take bytes during these calls."""
        touched = set[int]()
        for node in self.cover(first, last):
            unite(self.throughout[node], interval)
            while node and node not in touched:
                touched.add(node)
                unite(self.sometime[node], interval)
                node //= 2


def unite(intervals: list[Interval], new: Interval) -> None:
    """Add an interval to a sorted list of intervals that neither overlap nor touch."""
    low, high = new
    start = bisect_left(intervals, low, key=lambda i: i[1])
    stop = bisect_right(intervals, high, key=lambda i: i[0])
    if start < stop:
        low, high = min(low, intervals[start][0]), max(high, intervals[stop - 1][1])
    intervals[start:stop] = [(low, high)]
