"""What the template of a product in CUDA writes of tiles: where those of a block and of a thread
lie, and the pieces of k that they are summed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.ctext import index_type, plus, quotient, remainder, times
from noeira.codegen.cuda.arch import WARP
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.expressions import is_short
from noeira.codegen.view import Elementwise, Kernel, Load, Store

if TYPE_CHECKING:
    from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut


@dataclass(frozen=True)
class TileRows(CudaRows):
    """C as the elements that a tail runs over, where `row` and `column` are in scope."""

    def where(self, load: Load, lane: str = "") -> str:
        index, column = (f"({at} + {lane})" if lane else at for at in ("index", "column"))
        return self.subscript(load, index, column)


@dataclass(frozen=True)
class Tiles:
    """The texts of a cut."""

    cut: CudaGemmCut

    @property
    def int(self) -> str:
        """The C type of indices."""
        g, m = self.cut.gemm, self.cut.tiles_down * self.cut.rows
        n, k = self.cut.tiles_across * self.cut.columns, self.cut.pieces.extent * self.cut.depth
        largest = max(m * k, k * n, m * n, self.cut.sums)
        return index_type(max(largest, g.k))

    @property
    def layers(self) -> tuple[str, ...]:
        """C declarations of what tells products from each other that are made at once."""
        return ()

    @property
    def top(self) -> str:
        """C text for the first row of the block."""
        place = quotient("blockIdx.x", self.cut.tiles_across, self.cut.grid)
        rest = self.cut.grid // self.cut.tiles_across
        return times(remainder(place, self.cut.tiles_down, rest), self.cut.rows)

    @property
    def left(self) -> str:
        """C text for the first column of the block."""
        place = remainder("blockIdx.x", self.cut.tiles_across, self.cut.grid)
        return times(place, self.cut.columns)

    @property
    def piece(self) -> str:
        """C text for the piece of k that the block sums."""
        place, count = f"blockIdx.x / {self.cut.tiles}", self.cut.pieces.count
        return remainder(place, count, count * self.cut.layers)

    @property
    def start(self) -> str:
        """C text for the first step of the piece."""
        if len(self.cut.pieces.sizes) == 1:
            return times("piece", self.cut.pieces.size * self.cut.depth)
        return times(self.cut.pieces.start("piece"), self.cut.depth)

    @property
    def end(self) -> str:
        """C text for the step after the last of the piece, which starts at k."""
        if not self.cut.split:
            return str(self.cut.gemm.k)
        whole = str(self.cut.pieces.size * self.cut.depth)
        if len(self.cut.pieces.sizes) > 1:
            whole = times(self.cut.pieces.length("piece"), self.cut.depth)
        length = f"k + {whole}"
        if not self.cut.gemm.k % self.cut.depth:
            return length
        return f"piece == {self.cut.pieces.count - 1} ? {self.cut.gemm.k} : {length}"

    @property
    def ragged_pieces(self) -> bool:
        """Whether the last tile has fewer steps in one of several pieces."""
        return self.cut.split and self.cut.gemm.k % self.cut.depth > 0

    @property
    def last_steps(self) -> str:
        """C text for the steps of the last tile; `k` is where the next would begin."""
        if self.ragged_pieces:
            return "end - k" if self.cut.one_tile else f"end - (k - {self.cut.depth})"
        return str((self.cut.gemm.k - 1) % self.cut.depth + 1)

    @property
    def thread_down(self) -> str:
        """C text for a thread's place among those below each other."""
        down, across = self.cut.warp
        warps = quotient("threadIdx.x / 32", self.cut.across // across, self.cut.block // WARP)
        lanes = quotient("threadIdx.x % 32", across, WARP)
        return plus(times(warps, down), lanes)

    @property
    def thread_across(self) -> str:
        """C text for a thread's place among those side by side."""
        _, across = self.cut.warp
        warps = remainder("threadIdx.x / 32", self.cut.across // across, self.cut.block // WARP)
        return plus(times(warps, across), remainder("threadIdx.x", across, self.cut.block))

    def row_lines(self, own: str) -> tuple[str, ...]:
        """C declarations of the row of C, `own` of the block's; what `store_guards` ask for."""
        return (f"const {self.int} row = {plus('top', own)};",)

    def column(self, own: str) -> str:
        """C text for the column of C that is `own` of the block's."""
        return plus("left", own)

    @property
    def store_guards(self) -> tuple[str, str]:
        """C text of the conditions that a row and a column of the tile are in C; empty if all."""
        g = self.cut.gemm
        row = f"row < {g.m}" if g.m % self.cut.rows else ""
        return row, f"column < {g.n}" if g.n % self.cut.columns else ""

    def unrolled(self, kernel: Kernel) -> bool:
        """Whether the tail is written out for all rows of a thread: if it is short."""
        return self.cut.split or is_short(kernel.tail.lines) or self.cut.thread_rows == 1

    @property
    def tile_rows(self) -> TileRows:
        """The elements of C, as the tail sees them in the stage `gemm`."""
        return TileRows(self.cut.dtype, self.cut.lanes, self.cut.gemm.m, self.cut.gemm.n)

    @property
    def flat_rows(self) -> CudaRows:
        """The elements of C, as the tail sees them in the stage `total`."""
        return CudaRows(self.cut.dtype, self.cut.lanes, 1, self.cut.size)

    @property
    def partial(self) -> Elementwise:
        """What stands for the tail where the sums of a piece are stored."""
        dtype = self.cut.dtype
        return Elementwise(dtype, stores=(Store("sums_of_piece", self.cut.gemm.result, dtype),))
