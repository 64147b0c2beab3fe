"""Where elements come from that a kernel moves, as C text of their place in the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.elements import ELEMENTS
from noeira.codegen.rows import pieces_of
from noeira.ir.body import Body
from noeira.ir.ops.choice import AlongAxis
from noeira.ir.ops.movement import Span, Window
from noeira.ir.ops.transposition import Transpose, Turn

# Elements behind an axis that C takes together along it.
STRIP = 64


def steps(index: str, lengths: Sequence[int], strides: Sequence[int], constant: int = 0) -> str:
    """C text for the place of the element that has number `index` in row-major order of axes of
    some lengths, with `strides` between its neighbours along each; constant: where the first is.
    """
    bound = inner = math.prod(lengths)
    terms = list[str]()
    for length, stride in zip(lengths, strides, strict=True):
        outer, inner = bound // inner * length, inner // length
        terms.append(times(remainder(quotient(index, inner, bound), length, outer), stride))
    total = plus(*terms, *([str(constant)] if constant > 0 else []))
    return f"{total} - {-constant}" if constant < 0 else total


def counted(cut: Any, size: int) -> Callable[[int], int]:
    """How many accesses of a cut so many elements are; without a cut, as many as elements."""
    return (lambda count: count) if cut is None else (lambda count: cut.pieces(count, size))


@dataclass(frozen=True)
class WindowView:
    """A window of a larger tensor, in rows of elements that lie side by side in both: `kept` of
    `whole` in each, from `start` on. `window`, `around`: the rows of the two.
    """

    spans: tuple[Span, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.dtype].bytes

    @property
    def last(self) -> Span:
        """The window along a row."""
        return self.spans[-1]

    @property
    def window(self) -> int:
        """Rows of the window."""
        return math.prod(span.kept for span in self.spans[:-1])

    @property
    def around(self) -> int:
        """Rows of the larger tensor."""
        return math.prod(span.whole for span in self.spans[:-1])

    @property
    def behind(self) -> int:
        """Elements of a row behind the window."""
        return self.last.whole - self.last.end

    def place(self, row: str, cut: Any = None) -> str:
        """C text for where a row of the window begins in the larger tensor."""
        lengths, counts = [span.kept for span in self.spans[:-1]], counted(cut, self.bytes)
        strides = [self.stride(axis, "whole") for axis in range(len(lengths))]
        begin = sum(s.start * n for s, n in zip(self.spans, strides, strict=False))
        constant = counts(begin + self.last.start)
        return steps(row, lengths, [counts(n) for n in strides], constant)

    def own(self, row: str, cut: Any = None) -> str:
        """C text for where a row of the larger tensor, one that the window has, begins in that."""
        lengths, counts = [span.whole for span in self.spans[:-1]], counted(cut, self.bytes)
        strides = [self.stride(axis, "kept") for axis in range(len(lengths))]
        begin = sum(s.start * n for s, n in zip(self.spans, strides, strict=False))
        return steps(row, lengths, [counts(n) for n in strides], -counts(begin))

    def stride(self, axis: int, side: str) -> int:
        """Elements between neighbours along an axis, in the window or in the larger tensor."""
        return math.prod(getattr(span, side) for span in self.spans[axis + 1 :])

    def inside(self, row: str) -> str:
        """C text that holds for the rows of the larger tensor that the window has; empty if it has
        all.
        """
        lengths, found = [span.whole for span in self.spans[:-1]], list[str]()
        for axis, span in enumerate(self.spans[:-1]):
            only = [int(other == axis) for other in range(len(lengths))]
            found += between(steps(row, lengths, only), span)
        return " && ".join(found)

    def inside_row(self, column: str, cut: Any) -> list[str]:
        """The same of a column in a row, as the conditions that there are."""
        counts = counted(cut, self.bytes)
        last = Span(*map(counts, (self.last.kept, self.last.whole, self.last.start)))
        return between(column, last)

    def bits(self, value: float) -> str:
        """C text for a number as the whole number that its bits are."""
        import numpy as np

        from noeira.ir.arrays import numpy_dtype

        raw = np.array(value).astype(numpy_dtype(self.dtype)).tobytes()
        return f"0x{int.from_bytes(raw, 'little'):x}{'ull' if self.bytes == 8 else 'u'}"


def between(place: str, span: Span) -> list[str]:
    """C text of the conditions that a place is in a window."""
    found = [f"{place} >= {span.start}"] if span.start else []
    return [*found, f"{place} < {span.end}"] if span.end < span.whole else found


def window_of(body: Body) -> WindowView:
    """The window that a kernel takes out of, or puts into, a larger tensor."""
    node = body.parts[0]
    assert isinstance(node.op, Window)
    spans = node.op.spans(node.attrs, node.inputs[0].type)  # type: ignore[arg-type]
    return WindowView(spans, node.inputs[0].type.dtype)


@dataclass(frozen=True)
class TurnView:
    """A transposition. If elements that lie side by side do so afterwards, they are moved by rows;
    else squares are turned, whose columns run along the last axis of x, `columns` of them, and
    their rows along the last axis of the result.
    """

    turn: Turn
    dtype: str
    lanes: int = 1

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.dtype].bytes

    @property
    def size(self) -> int:
        """Elements in all."""
        return math.prod(self.turn.lengths)

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.turn.together

    @property
    def rows(self) -> int:
        """Rows that are moved, or rows of squares."""
        return self.size // self.width if self.turn.keeps_last else self.length(self.turn.order[-1])

    @property
    def columns(self) -> int:
        """Columns of squares."""
        return self.turn.lengths[-1]

    @property
    def row_stride(self) -> int:
        """From one row of a square to the next in x."""
        return self.turn.stride(self.turn.order[-1])

    @property
    def column_stride(self) -> int:
        """From one column of a square to the next in the result."""
        return self.turn.result_stride(len(self.turn.lengths) - 1)

    @property
    def vector(self) -> str:
        """The dtype of vectors that squares of so many bytes an element are turned in, whatever
        they hold; empty if there are none, or squares have no room for them.
        """
        fits = min(self.rows, self.columns) >= self.lanes > 1
        return {4: "f32", 8: "f64"}.get(self.bytes, "") if fits else ""

    @property
    def vector_ctype(self) -> str:
        """The C type of its elements."""
        return ELEMENTS[self.vector].ctype

    def length(self, axis: int) -> int:
        """Elements along an axis of x."""
        return self.turn.lengths[axis]

    def place(self, index: str, cut: Any = None) -> str:
        """C text for where an element, or access, of the result is in x."""
        counts, order = counted(cut, self.bytes), self.turn.order
        lengths, strides = [self.length(n) for n in order], [self.turn.stride(n) for n in order]
        if self.turn.keeps_last:
            lengths[-1] = counts(lengths[-1])
            strides = [*(counts(stride) for stride in strides[:-1]), 1]
        return steps(index, lengths, strides)

    def row_place(self, row: str) -> str:
        """C text for where a row of the result begins in x."""
        order = self.turn.order[:-1]
        lengths = [self.length(axis) for axis in order]
        return steps(row, lengths, [self.turn.stride(axis) for axis in order])

    @property
    def others(self) -> list[int]:
        """The axes of x that no square runs along, in the order of the result."""
        return [axis for axis in self.turn.order[:-1] if axis != len(self.turn.order) - 1]

    def down(self, side: int) -> int:
        """Squares of so many rows, one below the other."""
        return pieces_of(self.rows, side)

    def across(self, side: int) -> int:
        """Squares side by side."""
        return pieces_of(self.columns, side)

    def squares(self, side: int) -> int:
        """Squares in all."""
        planes = math.prod(map(self.length, self.others))
        return planes * self.down(side) * self.across(side)

    def top(self, item: str, side: int) -> str:
        """C text for the first row of a square."""
        return self.corner(item, side, (0, side, 0))

    def left(self, item: str, side: int) -> str:
        """C text for the first column of a square."""
        return self.corner(item, side, (0, 0, side))

    def corner(self, item: str, side: int, strides: tuple[int, int, int]) -> str:
        """C text for a sum over the places of a square: its plane, and where it is in that."""
        planes = math.prod(map(self.length, self.others))
        return steps(item, (planes, self.down(side), self.across(side)), strides)

    def plane(self, item: str, side: int, of_result: bool) -> str:
        """C text for where the plane of a square begins, in x or in the result."""
        stride = self.turn.result_stride if of_result else self.turn.stride
        each, axes = self.down(side) * self.across(side), self.others
        lengths, strides = [self.length(axis) for axis in axes], [stride(axis) for axis in axes]
        return steps(item, (*lengths, each), (*strides, 0))


def turn_view(body: Body, lanes: int = 1) -> TurnView:
    """The transposition that a kernel is."""
    node = body.parts[0]
    assert isinstance(node.op, Transpose)
    x = node.inputs[0].type
    return TurnView(node.op.turn(node.attrs, x), x.dtype, lanes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class AxisView:
    """A tensor with an axis of `length`: what is `before` it, and what is `behind`."""

    before: int
    length: int
    behind: int
    ctype: str

    @property
    def each(self) -> int:
        """Elements for each that is before the axis."""
        return self.length * self.behind

    @property
    def results(self) -> int:
        """Elements of the tensor without the axis."""
        return self.before * self.behind

    @property
    def size(self) -> int:
        """Elements in all."""
        return self.before * self.each

    @property
    def strip(self) -> int:
        """Elements behind the axis that are taken together."""
        return min(self.behind, STRIP)

    @property
    def strips(self) -> int:
        """Strips of so many in all."""
        return self.before * pieces_of(self.behind, self.strip)

    def strip_first(self, item: str) -> str:
        """C text for the first element of a strip."""
        return self.of_strip(item, self.each)

    def strip_result(self, item: str) -> str:
        """C text for the first result of a strip."""
        return self.of_strip(item, self.behind)

    def of_strip(self, item: str, each: int) -> str:
        """C text for where a strip begins, in a tensor of `each` elements before the axis."""
        count = pieces_of(self.behind, self.strip)
        return steps(item, (self.before, count), (each, self.strip))

    def strip_width(self, item: str) -> str:
        """C text for the elements of a strip."""
        count = pieces_of(self.behind, self.strip)
        last = self.behind - (count - 1) * self.strip
        place = steps(item, (self.before, count), (0, 1))
        return str(last) if count == 1 else f"{place} < {count - 1} ? {self.strip} : {last}"

    def first(self, index: str) -> str:
        """C text for the first element along the axis of an element without it."""
        return steps(index, (self.before, self.behind), (self.each, 1))

    def along(self, index: str) -> str:
        """C text for where an element is along the axis."""
        return steps(index, (self.before, self.length, self.behind), (0, 1, 0))

    def dropped(self, index: str) -> str:
        """C text for an element without the axis."""
        return steps(index, (self.before, self.length, self.behind), (self.behind, 0, 1))


def axis_view(body: Body) -> AxisView:
    """The axis that a kernel works along, of the tensor that has it."""
    node = body.parts[0]
    assert isinstance(node.op, AlongAxis)
    whole = max((node.inputs[0].type, node.outputs[0].type), key=lambda type: len(type.shape))
    dtype = node.inputs[0].type.dtype
    ctype = "float" if ELEMENTS[dtype].rounds else ELEMENTS[dtype].ctype
    return AxisView(*node.op.grid(node.attrs, whole), ctype)  # type: ignore[arg-type]
