"""How CUDA adds up a number for each row: each block the numbers of its rows, then one block the
sums of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.codegen.anchor import has_totals, rows_dtype, rows_operand
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda import row
from noeira.codegen.cuda.arch import WARP, Arch, ceil_to
from noeira.codegen.cut import option, written
from noeira.codegen.rows import rows_and_columns
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# Threads' work on rows that one block does by itself, so that no second launch adds up.
LONE_THREADS = 2048


@dataclass(frozen=True)
class RowTotalCut(row.RowCut):
    """total_block: threads of the block that adds up, 0 if there is but one block anyway."""

    total_block: int = option(0, stage="total", name="block", least=WARP)


class RowTotal(row.Row):
    """A launch over rows and one that adds up what its blocks did; one block does both. With a
    result for each row there is nothing to add up.

    summed: the dtype of the sum, by default the one that rows are computed in.
    """

    Cut = RowTotalCut
    summed: ClassVar[str] = ""

    def rule(self, body: Body, machine: Arch) -> RowTotalCut:
        rows, columns = rows_and_columns(rows_operand(body).type)
        threads = row.row_threads(columns, rows_dtype(body), machine)
        cut = super().rule(body, machine)
        if not has_totals(body):
            return RowTotalCut(cut.grid, cut.block, cut.row_threads)
        if threads <= WARP and rows * threads <= LONE_THREADS:
            block = min(row.MOST_THREADS, ceil_to(rows * threads, WARP))
            cut = replace(cut, grid=1, block=block)
        total = 0 if cut.grid == 1 else cuda.BLOCK
        return RowTotalCut(cut.grid, cut.block, cut.row_threads, total_block=total)

    def dtype(self, body: Body) -> str:
        """The dtype of the sum."""
        return self.summed or rows_dtype(body)

    def shared(self, body: Body, cut: row.RowCut) -> int:
        if cut.row_threads > WARP or not has_totals(body):
            return super().shared(body, cut)
        return cuda.room_for_warps(cut.block, self.dtype(body))

    def stages(self, body: Body, cut: RowTotalCut, machine: Arch) -> tuple[Stage, ...]:
        several = cut.grid > 1 and has_totals(body)
        name = "rows" if several else body.stem
        rows = cuda.launched(name, written(cut), self.shared(body, cut))
        if not several:
            return (rows,)
        room = cuda.room_for_warps(cut.total_block, self.dtype(body))
        return rows, cuda.launched("total", (("grid", 1), *written(cut, "total")), room)

    def scratch(self, body: Body, cut: RowTotalCut) -> tuple[Room, ...]:
        several = cut.grid > 1 and has_totals(body)
        return (Room("blocks", self.dtype(body), cut.grid),) if several else ()
