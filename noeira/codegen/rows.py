"""What templates see of their loops: rows and columns of elements, as both languages have them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.elements import ELEMENTS
from noeira.codegen.view import Load
from noeira.ir.broadcasting import Step
from noeira.ir.types import TensorType

RowsLike = TypeVar("RowsLike", bound="Rows")


@dataclass(frozen=True)
class Rows:
    """`rows` x `columns` elements of one dtype, row major, taken `lanes` at a time.

    Element-wise code over more rows than one finds `row`, `column` and `index` in scope, over one
    row only `index`.
    """

    dtype: str
    lanes: int
    rows: int
    columns: int

    def reshaped(self: RowsLike, rows: int, columns: int) -> RowsLike:
        """As many elements of the same dtype as are asked for."""
        return replace(self, rows=rows, columns=columns)

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return ELEMENTS[self.dtype].ctype

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.dtype].bytes

    @property
    def lowest(self) -> str:
        """C text for the least finite number."""
        return ELEMENTS[self.dtype].lowest

    @property
    def size(self) -> int:
        """Elements in all."""
        return self.rows * self.columns

    @property
    def last_column(self) -> int:
        """The number of the last column."""
        return self.columns - 1

    @property
    def part(self) -> int:
        """Elements of a row beyond those that are taken together."""
        return self.rest(self.columns)

    @property
    def full(self) -> int:
        """Elements of a row that are taken together."""
        return self.columns - self.part

    @property
    def lane_bits(self) -> int:
        """The bits of an index that say which of the lanes it is: there is a power of two."""
        return self.lanes - 1

    def rest(self, elements: int) -> int:
        """Of so many elements in a row those beyond the ones that are taken together."""
        return elements % self.lanes

    def pieces(self, size: int) -> int:
        """Pieces of so many elements that cover all."""
        return pieces_of(self.size, size)

    def chunks(self, rows: int) -> int:
        """Chunks of so many rows."""
        return pieces_of(self.rows, rows)

    def subscript(self, load: Load, index: str = "index", column: str = "column") -> str:
        """C text for where the element of the present row and of a column, at an index of all, lies
        in an operand.
        """
        if load.access == "full":
            return index
        return plus(*map(self.row_term, load.walk), column if load.along else "0")

    def row_term(self, step: Step) -> str:
        """C text for what the present row adds to that along some axes of the operand."""
        extent, inner, stride = step.extent, step.inner // self.columns, step.stride
        if step.inner == 1:
            extent, inner, stride = extent // self.columns, 1, self.columns
        return walked("row", self.rows, Step(extent, inner, stride))


def walked(index: str, extent: int, step: Step) -> str:
    """C text for what an index below `extent` adds along some axes of an operand."""
    place = quotient(index, step.inner, extent)
    return times(remainder(place, step.extent, extent // step.inner), step.stride)


def pieces_of(extent: int, size: int) -> int:
    """Pieces of at most so many that cover an extent."""
    return -(-extent // size)


def rows_and_columns(type: TensorType) -> tuple[int, int]:
    """A tensor as a matrix: the last axis, and all others folded."""
    columns = type.shape[-1] if type.shape else 1
    return math.prod(type.shape[:-1]), columns
