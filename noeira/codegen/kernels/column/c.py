"""How C adds up columns."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_operand
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import option, written
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Column sums of more rows are taken in chunks, so that threads can share tall, narrow matrices.
COLUMN_ROWS = 512
COLUMN_CHUNK_ROWS = 128
# Vectors of columns summed at a time: few where threads share columns; where they share rows, as
# much of a row as the L1 cache has room for the sums of.
COLUMN_VECTORS = 4
COLUMN_CHUNK_VECTORS = 256


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


class Column(c.CAnchor):
    """Strips of columns; for many rows, chunks of them first, and then the sums of the chunks."""

    stem = "column"
    Cut = ColumnCut

    def rule(self, body: Body, machine: ISA) -> ColumnCut:
        type = rows_operand(body).type
        rows, columns = rows_and_columns(type)
        vectors = pieces_of(columns, machine.lanes(type.dtype))
        split, stream = c.splits(type.size), bool(body.head) and c.streams(body)
        if rows <= COLUMN_ROWS:
            width = min(COLUMN_VECTORS, vectors)
            return ColumnCut(vectors=width, split=split, stream=stream)
        return ColumnCut(
            rows=COLUMN_CHUNK_ROWS,
            vectors=min(COLUMN_CHUNK_VECTORS, vectors),
            split=split,
            stream=stream,
            total_split=c.splits(pieces_of(rows, COLUMN_CHUNK_ROWS) * columns),
        )

    def stages(self, body: Body, cut: ColumnCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.rows:
            return (Stage("column", written(cut)),)
        return Stage("chunks", written(cut)), Stage("total", written(cut, "total"))

    def workspace(self, body: Body, cut: ColumnCut) -> int:
        type = rows_operand(body).type
        rows, columns = rows_and_columns(type)
        return pieces_of(rows, cut.rows) * columns * DTYPE_BYTES[type.dtype] if cut.rows else 0

    def check(self, body: Body, cut: ColumnCut, machine: ISA) -> None:
        type = rows_operand(body).type
        most = pieces_of(rows_and_columns(type)[1], machine.lanes(type.dtype))
        if cut.vectors > most:
            raise VerifyError(f"vectors must be a whole number from 1 to {most}, not {cut.vectors}")
