"""The sums over rows of the gradient of a norm, as chunks of rows leave them."""

from __future__ import annotations

from noeira.codegen.anchor import anchor_of, rows_dtype, rows_operand
from noeira.codegen.rows import rows_and_columns
from noeira.codegen.scratch import Room
from noeira.ir.body import Body


def chunk_rooms(body: Body, chunks: int) -> tuple[Room, ...]:
    """A row of each sum for each of so many chunks."""
    _, columns = rows_and_columns(rows_operand(body).type)
    dtype, node = rows_dtype(body), anchor_of(body)
    return tuple(Room(f"chunk_{name}", dtype, chunks * columns) for name in node.results[1:])
