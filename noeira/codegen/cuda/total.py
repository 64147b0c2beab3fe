"""How CUDA adds up all elements: a block for each chunk, then one block for the sums of chunks."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype, rows_operand
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import WARP, Arch, ceil_to
from noeira.codegen.cut import option
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# Elements that one block adds up alone, since another launch would take longer; of more, those that
# a block adds up at least before the sums of blocks are added: each thread some accesses.
SUM_ALONE = 16384
SUM_CHUNK = 4096


@dataclass(frozen=True)
class TotalCut:
    """block: threads of each block; size: elements of a chunk, 0 for all at once."""

    block: int = option(least=WARP)
    size: int = option(0)


class Total(cuda.CudaAnchor):
    """One block for few elements."""

    Cut = TotalCut

    def rule(self, body: Body, machine: Arch) -> TotalCut:
        type = rows_operand(body).type
        if type.size <= SUM_ALONE:
            return TotalCut(cuda.BLOCK)
        fewest = pieces_of(type.size, cuda.BLOCKS_EACH * machine.multiprocessors)
        step = cuda.BLOCK * machine.lanes(rows_dtype(body))
        return TotalCut(cuda.BLOCK, max(SUM_CHUNK, ceil_to(fewest, step)))

    def check(self, body: Body, cut: TotalCut, machine: Arch) -> None:
        lanes = machine.lanes(rows_dtype(body))
        if cut.size % lanes:
            raise VerifyError(f"{body.stem}: size must be a multiple of {lanes}, not {cut.size}")

    def stages(self, body: Body, cut: TotalCut, machine: Arch) -> tuple[Stage, ...]:
        size = rows_operand(body).type.size
        block, room = ("block", cut.block), cuda.room_for_warps(cut.block, rows_dtype(body))
        if not cut.size:
            return (cuda.launched(body.stem, (("grid", 1), block), room),)
        chunks = ("grid", pieces_of(size, cut.size))
        return (
            cuda.launched("chunks", (chunks, block, ("size", cut.size)), room),
            cuda.launched("total", (("grid", 1), block), room),
        )

    def scratch(self, body: Body, cut: TotalCut) -> tuple[Room, ...]:
        size = rows_operand(body).type.size
        return (Room("partial", rows_dtype(body), pieces_of(size, cut.size)),) if cut.size else ()
