"""The columns that are added up, in batches of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from noeira.codegen.anchor import rows_dtype
from noeira.codegen.rows import Rows, pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.ops.reduction import Sum, SumAttrs


def batches_of(body: Body) -> tuple[int, int, int]:
    """Batches, their rows, and columns."""
    node = body.anchor
    assert node is not None
    return cast(Sum, node.op).batches(cast(SumAttrs, node.attrs), node.inputs[0].type)


def chunk_sums(body: Body, rows: int) -> tuple[Room, ...]:
    """The sums of chunks of so many rows; none if there are no chunks."""
    batches, all_rows, columns = batches_of(body)
    size = batches * pieces_of(all_rows, rows) * columns if rows else 0
    return (Room("partial", rows_dtype(body), size),) if rows else ()


@dataclass(frozen=True)
class Batches(Rows):
    """All rows by columns; so many `batches` have sums of their own."""

    batches: int = 1

    @property
    def batch_rows(self) -> int:
        """Rows of a batch."""
        return self.rows // self.batches

    def chunks(self, rows: int) -> int:
        """Chunks of so many rows in a batch."""
        return pieces_of(self.batch_rows, rows)
