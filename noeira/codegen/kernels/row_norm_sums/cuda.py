"""How CUDA makes the gradient of norms of rows together with its sums over rows."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype, rows_operand
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda import row
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.row_norm_sums.chunks import chunk_rooms
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Rows that a team of threads adds up at least, and blocks for each multiprocessor: what they leave
# is small beside the rows.
TEAM_ROWS = 8
BLOCKS_EACH = 2


@dataclass(frozen=True)
class RowNormSumsCut(row.RowCut):
    """total_block: threads of a block that adds up what the rows' threads left of a strip."""

    total_block: int = option(cuda.BLOCK, stage="total", name="block", least=WARP)


class RowNormSums(row.Row):
    """As rows, by few enough threads; then a block for each strip of columns."""

    Cut = RowNormSumsCut
    stem = "row_norm_sums"

    def rule(self, body: Body, machine: Arch) -> RowNormSumsCut:
        rows, _ = rows_and_columns(rows_operand(body).type)
        cut = super().rule(body, machine)
        # What lies in the workspace is added to by a whole block, which waits for all its threads.
        threads = cut.row_threads if cut.held else cut.block
        wanted = max(1, pieces_of(rows, cut.block // threads * TEAM_ROWS))
        grid = min(cut.grid, wanted, BLOCKS_EACH * machine.multiprocessors)
        return RowNormSumsCut(grid, cut.block, threads, cut.held)

    def check(self, body: Body, cut: row.RowCut, machine: Arch) -> None:
        super().check(body, cut, machine)
        if not cut.held and cut.row_threads != cut.block:
            raise VerifyError(
                f"{body.stem}: held must not be 0 where a row has fewer threads than a block"
            )

    def stages(self, body: Body, cut: RowNormSumsCut, machine: Arch) -> tuple[Stage, ...]:
        _, columns = rows_and_columns(rows_operand(body).type)
        rows = cuda.launched("rows", written(cut), self.shared(body, cut))
        options = (("grid", pieces_of(columns, WARP)), ("block", cut.total_block))
        room = cut.total_block * DTYPE_BYTES[rows_dtype(body)]
        return rows, cuda.launched("total", options, room)

    def scratch(self, body: Body, cut: RowNormSumsCut) -> tuple[Room, ...]:
        return chunk_rooms(body, cut.grid * (cut.block // cut.row_threads))
