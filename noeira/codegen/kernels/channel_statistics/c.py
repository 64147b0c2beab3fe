"""How C finds the mean and the variance of columns."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.anchor import rows_dtype
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.column.batches import batches_of, chunk_sums
from noeira.codegen.kernels.column.c import Column, ColumnCut
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES

# A chunk is read again from the L1 cache: so many bytes, in so many rows at least and at most.
CHUNK_BYTES = 1 << 15
CHUNK_ROWS = 32
MOST_ROWS = 512


class ChannelStatistics(Column):
    """Strips of columns, which are looked at twice; for more rows than a chunk has, chunks of them
    first.
    """

    stem = "channel_statistics"

    def rule(self, body: Body, machine: ISA) -> ColumnCut:
        (batches, rows, columns), dtype = batches_of(body), rows_dtype(body)
        chunk = CHUNK_BYTES // (columns * DTYPE_BYTES[dtype])
        chunk = min(max(chunk, CHUNK_ROWS), MOST_ROWS)
        cut = super().rule(body, machine)
        if rows <= chunk:
            return replace(cut, rows=0, total_split=False)
        joined = c.splits(batches * pieces_of(rows, chunk) * columns)
        return replace(cut, rows=chunk, vectors=self.vectors(body, machine), total_split=joined)

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows, ("chunk_means", "chunk_squares"))
