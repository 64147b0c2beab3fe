"""What templates see of their loops: rows and columns of elements, as both languages have them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from noeira.codegen.elements import ELEMENTS
from noeira.codegen.view import Load
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
    def part(self) -> int:
        """Elements of a row beyond those that are taken together."""
        return self.columns % self.lanes

    @property
    def full(self) -> int:
        """Elements of a row that are taken together."""
        return self.columns - self.part

    def pieces(self, size: int) -> int:
        """Pieces of so many elements that cover all."""
        return pieces_of(self.size, size)

    def chunks(self, rows: int) -> int:
        """Chunks of so many rows."""
        return pieces_of(self.rows, rows)

    def subscript(self, load: Load) -> str:
        """C text for where the element of the present row and column lies in an operand.

        A `row` operand serves each run of as many rows as it has.
        """
        if load.access == "full":
            return "index"
        rows = load.size // self.columns
        return "column" if rows == 1 else f"row % {rows} * {self.columns} + column"


def pieces_of(extent: int, size: int) -> int:
    """Pieces of at most so many that cover an extent."""
    return -(-extent // size)


def rows_and_columns(type: TensorType) -> tuple[int, int]:
    """A tensor as a matrix: the last axis, and all others folded."""
    columns = type.shape[-1] if type.shape else 1
    return math.prod(type.shape[:-1]), columns
