"""The columns that are added up, in batches of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from noeira.codegen.rows import Rows, pieces_of
from noeira.ir.body import Body
from noeira.ir.ops.reduction import Sum, SumAttrs
from noeira.ir.types import DTYPE_BYTES


def batches_of(body: Body) -> tuple[int, int, int]:
    """Batches, their rows, and columns."""
    node = body.anchor
    assert node is not None
    return cast(Sum, node.op).batches(cast(SumAttrs, node.attrs), node.inputs[0].type)


def chunk_bytes(body: Body, rows: int) -> int:
    """Bytes for the sums of chunks of so many rows; 0 if there are none."""
    batches, all_rows, columns = batches_of(body)
    dtype = body.anchor.inputs[0].type.dtype if body.anchor else ""
    return batches * pieces_of(all_rows, rows) * columns * DTYPE_BYTES[dtype] if rows else 0


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
