"""How CUDA finds the mean and the variance of columns."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.cuda.arch import Arch
from noeira.codegen.kernels.column.batches import batches_of, chunk_sums
from noeira.codegen.kernels.column.cuda import COLUMN_ROWS, Column, ColumnCut
from noeira.codegen.scratch import Room
from noeira.ir.body import Body


class ChannelStatistics(Column):
    """As column sums, in chunks that the L1 cache has room for: they are looked at twice."""

    stem = "channel_statistics"

    def rule(self, body: Body, machine: Arch) -> ColumnCut:
        cut, (_, rows, _) = super().rule(body, machine), batches_of(body)
        most = min(cut.rows or rows, COLUMN_ROWS)
        return replace(cut, rows=0 if rows <= COLUMN_ROWS else most)

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows, ("chunk_means", "chunk_squares"))
