"""How C adds up a number for each row: the numbers into the workspace, then their sum."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import has_totals, rows_dtype, rows_operand
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import option, written
from noeira.codegen.rows import rows_and_columns
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Longer rows are read once, for their maximum and the sum of their exponentials together: shorter
# ones are still in the L1 cache when they are read again.
LONG_ROW_BYTES = 1 << 14


@dataclass(frozen=True)
class RowTotalCut(c.SplitCut):
    """split: whether threads share the rows, and one of them then adds up in a stage of its own;
    once: whether rows are read once.
    """

    once: bool = option(False)


class RowTotal(c.CAnchor):
    """One thread does few elements. With a result for each row there is nothing to add up."""

    Cut = RowTotalCut

    def rule(self, body: Body, machine: ISA) -> RowTotalCut:
        type = rows_operand(body).type
        rows, columns = rows_and_columns(type)
        once = columns * DTYPE_BYTES[type.dtype] > LONG_ROW_BYTES
        return RowTotalCut(c.splits(rows * max(columns, machine.lanes(rows_dtype(body)))), once)

    def stages(self, body: Body, cut: RowTotalCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.split or not has_totals(body):
            return (Stage(body.stem, written(cut)),)
        return Stage("rows", written(cut)), Stage("total")

    def scratch(self, body: Body, cut: RowTotalCut) -> tuple[Room, ...]:
        if not has_totals(body):
            return ()
        rows, _ = rows_and_columns(rows_operand(body).type)
        return (Room("terms", rows_dtype(body), rows),)
