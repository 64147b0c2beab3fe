"""How C makes the gradient of norms of rows together with its sums over rows."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import anchor_of, rows_operand, work_of
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.row_norm_sums.chunks import chunk_rooms
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# Rows of a chunk at least, beside which its sums are few; and chunks at most.
CHUNK_ROWS = 16
MOST_CHUNKS = 64


@dataclass(frozen=True, kw_only=True)
class RowNormSumsCut(c.StreamCut):
    """rows: of a chunk."""

    rows: int = option()


class RowNormSums(c.CAnchor):
    """Threads share the chunks; then one adds up their sums."""

    stem = "row_norm_sums"
    Cut = RowNormSumsCut

    def rule(self, body: Body, machine: ISA) -> RowNormSumsCut:
        rows, _ = rows_and_columns(rows_operand(body).type)
        most = max(CHUNK_ROWS, pieces_of(rows, MOST_CHUNKS))
        stream = c.streams(body) and anchor_of(body).op.streams
        return RowNormSumsCut(rows=most, split=c.splits(work_of(body)), stream=stream)

    def stages(self, body: Body, cut: RowNormSumsCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.split:
            return (Stage(body.stem, written(cut)),)
        return Stage("rows", written(cut)), Stage("total")

    def scratch(self, body: Body, cut: RowNormSumsCut) -> tuple[Room, ...]:
        rows, _ = rows_and_columns(rows_operand(body).type)
        return chunk_rooms(body, pieces_of(rows, cut.rows))
