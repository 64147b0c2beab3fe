"""How CUDA adds up columns."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cuda.row import power_of_two
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.cut import option
from noeira.codegen.kernels.column.batches import Batches, batches_of, chunk_sums
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Rows that one block adds up of a strip of columns; of more, those that a block adds up at least,
# and how many blocks are wanted for each multiprocessor.
COLUMN_ROWS = 256
COLUMN_CHUNK_ROWS = 64
COLUMN_BLOCKS_EACH = 4
# And at most, so that a thread does not round a long sum too often.
COLUMN_MOST_ROWS = 1024


@dataclass(frozen=True)
class ColumnCut:
    """block: threads of each block; rows: of a chunk, 0 for all at once."""

    block: int = option(least=WARP)
    rows: int = option(0)


@dataclass(frozen=True)
class CudaBatches(Batches, CudaRows):
    """Rows in batches, and their strips of columns."""


class Column(cuda.CudaAnchor):
    """A block for each strip of columns; for many rows also for chunks of them, whose sums are then
    added.
    """

    stem = "column"
    Cut = ColumnCut

    def rule(self, body: Body, machine: Arch) -> ColumnCut:
        batches, rows, columns = batches_of(body)
        strips = batches * pieces_of(columns, WARP)
        wanted = max(1, COLUMN_BLOCKS_EACH * machine.multiprocessors // strips)
        chunk = min(max(COLUMN_CHUNK_ROWS, pieces_of(rows, wanted)), COLUMN_MOST_ROWS)
        alone = rows <= max(chunk, COLUMN_ROWS)
        # No threads for rows that batches of a few do not have.
        block = min(cuda.BLOCK, WARP * power_of_two(rows)) if batches > 1 else cuda.BLOCK
        return ColumnCut(block, 0 if alone else chunk)

    def stages(self, body: Body, cut: ColumnCut, machine: Arch) -> tuple[Stage, ...]:
        batches, rows, columns = batches_of(body)
        strips, block = batches * pieces_of(columns, WARP), ("block", cut.block)
        room = cut.block * DTYPE_BYTES[rows_dtype(body)]
        if not cut.rows:
            return (cuda.launched(body.stem, (("grid", strips), block), room),)
        grid = ("grid", strips * pieces_of(rows, cut.rows))
        return (
            cuda.launched("chunks", (grid, block, ("rows", cut.rows)), room),
            cuda.launched("total", (("grid", strips), block), room),
        )

    def scratch(self, body: Body, cut: ColumnCut) -> tuple[Room, ...]:
        return chunk_sums(body, cut.rows)

    def view(self, body: Body, machine: Arch) -> CudaBatches:
        (batches, rows, columns), dtype = batches_of(body), rows_dtype(body)
        return CudaBatches(dtype, machine.lanes(dtype), batches * rows, columns, batches)
