"""How CUDA runs the kernel `adaptive_clip`."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda import total
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.adaptive_clip.pieces import SpansView, spans_of, squares
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# Elements that a warp adds up before the sums of pieces are added.
WARP_PIECE = 1024


@dataclass(frozen=True)
class CudaSpans(SpansView[CudaRows]):
    """Ranges, and the threads that take their pieces."""

    @property
    def last(self) -> int:
        """The number of the last range."""
        return self.count - 1

    def threads(self, size: int) -> int:
        """Threads for pieces of so many elements: a warp for each."""
        return self.pieces(size) * WARP


@dataclass(frozen=True)
class AdaptiveClipCut(cuda.LaunchCut):
    """size: elements of a piece, 0 where each range has a block that takes it at once."""

    size: int = option(0)


class AdaptiveClip(cuda.CudaAnchor):
    """A warp for each piece of a range, then a block for the pieces of each; of short ranges a
    block for each at once.
    """

    stem = "adaptive_clip"
    Cut = AdaptiveClipCut

    def rule(self, body: Body, machine: Arch) -> AdaptiveClipCut:
        spans = spans_of(body)
        if max(spans.lengths) <= total.SUM_ALONE:
            return AdaptiveClipCut(spans.count, cuda.BLOCK)
        threads = spans.pieces(WARP_PIECE) * WARP
        blocks = cuda.blocks_for(threads, cuda.BLOCK, machine)
        return AdaptiveClipCut(blocks, cuda.BLOCK, WARP_PIECE)

    def check(self, body: Body, cut: AdaptiveClipCut, machine: Arch) -> None:
        count = spans_of(body).count
        if not cut.size and cut.grid != count:
            raise VerifyError(f"{body.stem}: grid must be {count}, a block for each range")
        if cut.block % WARP:
            raise VerifyError(f"{body.stem}: block must be a multiple of {WARP}, not {cut.block}")

    def stages(self, body: Body, cut: AdaptiveClipCut, machine: Arch) -> tuple[Stage, ...]:
        room = cuda.room_for_warps(cut.block, rows_dtype(body))
        if not cut.size:
            return (cuda.launched(body.stem, written(cut), room),)
        ranges = (("grid", spans_of(body).count), ("block", cut.block))
        pieces = cuda.launched("pieces", written(cut))
        return pieces, cuda.launched("ranges", ranges, room)

    def scratch(self, body: Body, cut: AdaptiveClipCut) -> tuple[Room, ...]:
        return squares(body, cut.size) if cut.size else ()

    def view(self, body: Body, machine: Arch) -> CudaSpans:
        spans, grid = spans_of(body), super().view(body, machine)
        return CudaSpans(spans.begins, spans.lengths, grid)
