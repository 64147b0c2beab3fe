"""How CUDA adds up columns of a cotangent, and of its products with what was normalised."""

from __future__ import annotations

from noeira.codegen.kernels.column.batches import chunk_sums
from noeira.codegen.kernels.column.cuda import Column, ColumnCut
from noeira.codegen.scratch import Room
from noeira.ir.body import Body


class ChannelSums(Column):
    """A block for each strip of columns; for many rows also for chunks of them."""

    stem = "channel_sums"

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows, ("chunk_sums", "chunk_products"))
