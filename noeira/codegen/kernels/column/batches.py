"""The columns that are added up, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from noeira.codegen.anchor import anchor_of, rows_dtype
from noeira.codegen.rows import Rows, pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.ops.channels import ChannelOp
from noeira.ir.ops.reduction import Sum


def batches_of(body: Body) -> tuple[int, int, int]:
    """Batches, their rows, and columns."""
    node = anchor_of(body)
    assert isinstance(node.op, Sum | ChannelOp)
    attrs: Any = node.attrs
    return node.op.batches(attrs, node.inputs[0].type)


def chunk_sums(body: Body, rows: int, names: Iterable[str] = ("partial",)) -> tuple[Room, ...]:
    """The sums of chunks of so many rows, by their names; none if there are no chunks."""
    batches, all_rows, columns = batches_of(body)
    size = batches * pieces_of(all_rows, rows) * columns if rows else 0
    return tuple(Room(name, rows_dtype(body), size) for name in names) if rows else ()


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

    def last_chunk(self, rows: int) -> int:
        """The number of the last of these."""
        return self.chunks(rows) - 1

    def last_rows(self, rows: int) -> int:
        """Rows of the last of these."""
        return self.batch_rows - self.last_chunk(rows) * rows
