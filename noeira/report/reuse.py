"""How long ago each launch's bytes were last touched: what decides the cache they come from.

A plan says where every value lies, so the bytes touched between two uses of the same memory can be
counted. A cache that holds so many still has the value; a smaller one has lost it. Steps follow one
another: what a step reads first, the step before touched last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noeira.ir.cost import node_cost
from noeira.ir.graph import Value
from noeira.ir.plan import ARENA, LITERAL, Call, Plan


@dataclass(frozen=True)
class Moved:
    """A part of a launch's traffic: bytes read and bytes written, and the bytes touched from the
    last use of the same memory to the end of this one.
    """

    read: float
    written: float
    working_set: int


@dataclass(frozen=True)
class Span:
    """A stretch of memory: from `start` to `end`, in bytes from where its root begins."""

    root: str
    start: int
    end: int


@dataclass(frozen=True)
class Use:
    """The memory a launch uses, as sets of cells (bit i is cell i).

    whole: what it surely reads or writes all of, its workspace too.
    """

    read: int
    written: int
    whole: int

    @property
    def any(self) -> int:
        """All cells it uses."""
        return self.read | self.written | self.whole


class Cells:
    """Memory cut wherever some span begins or ends: every span is a set of whole cells."""

    def __init__(self, spans: Iterable[Span]) -> None:
        cuts: dict[str, set[int]] = {}
        for span in spans:
            cuts.setdefault(span.root, set()).update((span.start, span.end))
        self.index: dict[tuple[str, int], int] = {}
        self.sizes = list[int]()
        for root, places in cuts.items():
            ordered = sorted(places)
            for start, end in zip(ordered, [*ordered[1:], ordered[-1]], strict=True):
                self.index[root, start] = len(self.sizes)
                self.sizes.append(end - start)

    def mask(self, spans: Iterable[Span]) -> int:
        """The cells of some spans."""
        found = 0
        for span in spans:
            first, last = self.index[span.root, span.start], self.index[span.root, span.end]
            found |= (1 << last) - (1 << first)
        return found

    def bytes(self, mask: int) -> int:
        """The size of a set of cells."""
        total = 0
        while mask:
            lowest = mask & -mask
            total += self.sizes[lowest.bit_length() - 1]
            mask ^= lowest
        return total


def traffic(plan: Plan, largest: int) -> list[tuple[Moved, ...]]:
    """The traffic of every call of a plan, by the working set it comes from.

    largest: bytes of the largest cache; a working set beyond is not followed further.
    """
    reads = [spans(plan, call.node.inputs) for call in plan.calls]
    writes = [spans(plan, call.node.outputs) for call in plan.calls]
    rooms = [workspace(call) for call in plan.calls]
    cells = Cells(span for group in (reads, writes, rooms) for found in group for span in found)
    uses = list[Use]()
    for call, read, written, room in zip(plan.calls, reads, writes, rooms, strict=True):
        whole = [*surely_read(call, read), *written, *room]
        uses.append(Use(cells.mask(read), cells.mask(written), cells.mask(whole)))
    return [
        scaled(call, moved(cells, uses, number, largest)) for number, call in enumerate(plan.calls)
    ]


def spans(plan: Plan, values: Sequence[Value]) -> list[Span]:
    """Where values lie; literals are part of the program."""
    places = [plan.place[value.name] for value in values]
    return [
        Span(place.root, place.offset, place.offset + place.size)
        for place in places
        if place.kind != LITERAL and place.size
    ]


def workspace(call: Call) -> list[Span]:
    """A call's own room in the arena."""
    size = call.choice.workspace
    return [Span(ARENA, call.workspace, call.workspace + size)] if size else []


def surely_read(call: Call, read: list[Span]) -> list[Span]:
    """Without the largest operand, where a call reads only some of its rows."""
    total = sum(span.end - span.start for span in read)
    if node_cost(call.node).bytes_read >= total:
        return read
    largest = max(read, key=lambda span: span.end - span.start)
    return [span for span in read if span is not largest]


def moved(cells: Cells, uses: Sequence[Use], number: int, largest: int) -> list[Moved]:
    """What a call reads and writes, the most recently used first."""
    own = uses[number]
    wanted, seen = own.read | own.written, own.whole
    working_set = cells.bytes(seen)
    found = list[Moved]()
    for back in range(1, len(uses) + 1):
        other = uses[number - back]
        fresh = other.whole & ~seen
        seen |= fresh
        working_set += cells.bytes(fresh)
        far = working_set > largest or back == len(uses)
        here = wanted if far else wanted & other.any
        if here:
            read, written = cells.bytes(here & own.read), cells.bytes(here & own.written)
            found.append(Moved(read, written, working_set))
            wanted &= ~here
        if not wanted:
            break
    return found


def scaled(call: Call, parts: list[Moved]) -> tuple[Moved, ...]:
    """The parts with as many bytes in all as the node's cost says: an operand given twice moves
    once there, and of some only a few rows are read.
    """
    cost = node_cost(call.node)
    read = sum(part.read for part in parts)
    written = sum(part.written for part in parts)
    by_read = cost.bytes_read / read if read else 0.0
    by_written = cost.bytes_written / written if written else 0.0
    return tuple(Moved(p.read * by_read, p.written * by_written, p.working_set) for p in parts)
