"""How C adds up columns of a cotangent, and of its products with what was normalised."""

from __future__ import annotations

from noeira.codegen.kernels.column.batches import chunk_sums
from noeira.codegen.kernels.column.c import Column, ColumnCut
from noeira.codegen.scratch import Room
from noeira.ir.body import Body


class ChannelSums(Column):
    """Strips of columns; for many rows, chunks of them first."""

    stem = "channel_sums"

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows, ("chunk_sums", "chunk_products"))
