"""How C counts the rows whose own class is among the first."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_operand
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import option, written
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage


@dataclass(frozen=True)
class TopKCut:
    """rows: of a chunk; split: whether threads share chunks, and one of them then adds up in a
    stage of its own.
    """

    rows: int = option()
    split: bool = option(False)


class TopK(c.CAnchor):
    """Counts of chunks of rows, then their sum; one thread does few elements."""

    stem = "top_k"
    Cut = TopKCut

    def rule(self, body: Body, machine: ISA) -> TopKCut:
        rows, columns = rows_and_columns(rows_operand(body).type)
        chunk = max(1, c.SPLIT_ELEMENTS // columns)
        return TopKCut(chunk, pieces_of(rows, chunk) > 2)

    def stages(self, body: Body, cut: TopKCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.split:
            return (Stage(body.stem, written(cut)),)
        return Stage("chunks", written(cut)), Stage("total")

    def scratch(self, body: Body, cut: TopKCut) -> tuple[Room, ...]:
        rows, _ = rows_and_columns(rows_operand(body).type)
        return (Room("counts", "i64", pieces_of(rows, cut.rows)),)
