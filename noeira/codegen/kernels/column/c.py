"""How C adds up columns."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype, rows_operand
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.ctext import times
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.column.batches import Batches, batches_of, chunk_sums
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import FLOATS

# Column sums of more rows are taken in chunks, so that threads can share tall, narrow matrices.
COLUMN_ROWS = 512
COLUMN_CHUNK_ROWS = 128
# Vectors of columns summed at a time: few where threads share columns; where they share rows, as
# much of a row as loops over vectors can be written out for.
COLUMN_VECTORS = 4
COLUMN_CHUNK_VECTORS = 32


@dataclass(frozen=True, kw_only=True)
class ColumnCut:
    """rows: of a chunk, whose sums are then added in a second stage, 0 for all at once; vectors: of
    columns that are taken together; split, stream: as usual; total_split: of the second stage.
    """

    rows: int = option(0)
    vectors: int = option()
    split: bool = option(False)
    stream: bool = option(False)
    total_split: bool = option(False, stage="total", name="split")


@dataclass(frozen=True)
class CBatches(Batches, CRows):
    """Rows in batches, and their vectors. Items of work are strips of columns, by chunks or batches
    of rows.
    """

    def rows_of(self, item: str, vectors: int) -> str:
        """C text for the chunk or batch of an item, of strips of so many vectors."""
        strips = self.strips(vectors)
        return f"{item} / {strips}" if strips > 1 else item

    def left(self, item: str, vectors: int) -> str:
        """C text for its first column."""
        strips, width = self.strips(vectors), self.width(vectors)
        return f"{item} % {strips} * {width}" if strips > 1 else "0"

    def items(self, vectors: int, rows: int = 0) -> int:
        """Items in all; of chunks of so many rows, if there are chunks."""
        return self.batches * (self.chunks(rows) if rows else 1) * self.strips(vectors)

    def last_left(self, vectors: int) -> int:
        """The first column of the last strip."""
        return self.width((self.strips(vectors) - 1) * vectors)

    def last_whole(self, vectors: int) -> int:
        """Whole vectors of the last strip."""
        return self.last_strip(vectors) - (1 if self.part else 0)

    def sums_place(self, rows: int) -> str:
        """C text for where the sums of a `chunk` of so many rows begin, or, if there are none,
        those of a `batch`.
        """
        if rows:
            return times("chunk", self.columns)
        return times("batch", self.columns) if self.batches > 1 else "0"

    def chunk_sums(self, rows: int) -> int:
        """Sums of all chunks of a batch."""
        return self.chunks(rows) * self.columns


class Column(c.CAnchor):
    """Strips of columns; for many rows, chunks of them first, and then the sums of the chunks."""

    stem = "column"
    Cut = ColumnCut
    dtypes = frozenset(FLOATS)

    def vectors(self, body: Body, machine: ISA) -> int:
        """Vectors of a strip where threads share rows."""
        _, _, columns = batches_of(body)
        return min(COLUMN_CHUNK_VECTORS, pieces_of(columns, machine.lanes(rows_dtype(body))))

    def rule(self, body: Body, machine: ISA) -> ColumnCut:
        (batches, rows, columns), type = batches_of(body), rows_operand(body).type
        split, stream = c.splits(type.size), bool(body.head) and c.streams(body)
        if rows <= COLUMN_ROWS:
            width = min(COLUMN_VECTORS, self.vectors(body, machine))
            return ColumnCut(vectors=width, split=split, stream=stream)
        return ColumnCut(
            rows=COLUMN_CHUNK_ROWS,
            vectors=self.vectors(body, machine),
            split=split,
            stream=stream,
            total_split=c.splits(batches * pieces_of(rows, COLUMN_CHUNK_ROWS) * columns),
        )

    def stages(self, body: Body, cut: ColumnCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.rows:
            return (Stage(body.stem, written(cut)),)
        return Stage("chunks", written(cut)), Stage("total", written(cut, "total"))

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows)

    def check(self, body: Body, cut: ColumnCut, machine: ISA) -> None:
        most = pieces_of(batches_of(body)[2], machine.lanes(rows_dtype(body)))
        if cut.vectors > most:
            raise VerifyError(f"vectors must be a whole number from 1 to {most}, not {cut.vectors}")

    def view(self, body: Body, machine: ISA) -> CBatches:
        (batches, rows, columns), dtype = batches_of(body), rows_dtype(body)
        return CBatches(dtype, machine.lanes(dtype), batches * rows, columns, batches)
