"""The ranges that each have sums of their own, and the pieces that these are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar, cast

from noeira.codegen.anchor import anchor_of, rows_dtype
from noeira.codegen.rows import Rows, pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.ops.clipping import AdaptiveClip, AdaptiveClipAttrs

RowsLike = TypeVar("RowsLike", bound=Rows)


@dataclass(frozen=True)
class Spans:
    """Ranges: where each begins, and how many elements it has."""

    begins: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.begins)

    @property
    def elements(self) -> int:
        """Elements of all."""
        return sum(self.lengths)

    @property
    def before(self) -> tuple[int, ...]:
        """The elements of those before each, and of all."""
        return summed(self.lengths)

    @property
    def ends(self) -> tuple[int, ...]:
        """One past the last element of each."""
        return tuple(map(sum, zip(self.begins, self.lengths, strict=True)))

    def firsts(self, size: int) -> tuple[int, ...]:
        """The number of the first piece of each, if pieces have at most so many elements, and how
        many there are in all.
        """
        return summed(pieces_of(length, size) for length in self.lengths)

    def pieces(self, size: int) -> int:
        """Pieces in all."""
        return self.firsts(size)[-1]

    def most(self, size: int) -> int:
        """The most pieces that one of them has."""
        return pieces_of(max(self.lengths), size)


def summed(numbers: Iterable[int]) -> tuple[int, ...]:
    """Sums of the numbers before each, and of all."""
    return tuple(accumulate(numbers, initial=0))


@dataclass(frozen=True)
class SpansView(Spans, Generic[RowsLike]):
    """What templates see: the ranges, and the elements as a `grid`."""

    grid: RowsLike

    def is_ragged(self, size: int) -> bool:
        """Whether not all pieces of so many elements consist of what is taken together."""
        return any(self.grid.rest(length) for length in (*self.lengths, size))


def spans_of(body: Body) -> Spans:
    """The ranges of a kernel."""
    node = anchor_of(body)
    rule, attrs = cast(AdaptiveClip, node.op), cast(AdaptiveClipAttrs, node.attrs)
    spans = rule.spans(attrs, node.inputs[0].type)
    starts = tuple(span.start for span in spans)
    return Spans(starts, tuple(span.stop - span.start for span in spans))


def squares(body: Body, size: int) -> tuple[Room, ...]:
    """For sums of squares of pieces of so many elements, of parameters and of gradients."""
    dtype, count = rows_dtype(body), spans_of(body).pieces(size)
    return Room("squares_p", dtype, count), Room("squares_g", dtype, count)
