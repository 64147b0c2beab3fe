"""The GEMM of a CUDA kernel: what its template sees of how a product is cut.

A block makes a tile of `rows` x `columns` elements of C, each of its threads `thread_rows` x
`thread_columns` of them in registers. `depth` steps of k at a time lie in shared memory, twice:
while one tile of the operands is used, the next is on its way from global memory, in registers.
Each element is summed over ascending k by fma, whatever the tile: its bits depend on the operands
alone, unless k is split; the sums of the pieces are then added in order by a second stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.ctext import index_type, plus, quotient, remainder, times
from noeira.codegen.cuda.arch import ACCESS_BYTES, WARP, ceil_to
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.cut import option
from noeira.codegen.elements import ctype
from noeira.codegen.expressions import is_short
from noeira.codegen.kernels.gemm.cuda_side import Side
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.codegen.view import Elementwise, Kernel, Load, Store
from noeira.ir.types import DTYPE_BYTES

# Threads of a warp that lie side by side, if there are as many: 8 of them read 128 bytes of B.
WARP_ACROSS = 8
# Registers of a thread for addresses, counters and what the compiler keeps at hand.
OTHER_REGISTERS = 40
# Half of a multiprocessor's registers: all that a block may have if a second one is to have room.
# An estimate of so much more still fits in.
HALF, MORE = 32768, 1.1
# Threads of a block of the stage `total`.
TOTAL_BLOCK = 256


@dataclass(frozen=True)
class TileOptions:
    """A cut as it stands in a plan: the tile of a block, of a thread, and how many pieces of k are
    summed apart. Any launch will do for these pieces' sums.
    """

    rows: int = option(most=256, power=True)
    columns: int = option(most=256, power=True)
    depth: int = option(most=128, power=True)
    thread_rows: int = option(most=16, power=True)
    thread_columns: int = option(most=16, power=True)
    splits: int = option(1)
    total_grid: int = option(1, stage="total", name="grid")
    total_block: int = option(1, stage="total", name="block")


@dataclass(frozen=True)
class TileRows(CudaRows):
    """C as the elements that a tail runs over, where `row` and `column` are in scope."""

    def where(self, load: Load, index: str = "index") -> str:
        """C text for where an element lies in an operand, by its row and column."""
        if load.access == "full":
            return index
        return self.subscript(load).replace("column", index.replace("index", "column"))


@dataclass(frozen=True)
class CudaGemmCut:
    """How a GEMM is cut into tiles.

    pieces: the tiles of `depth` steps that cover k, cut into pieces that are summed apart.
    """

    gemm: Gemm
    dtype: str
    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    pieces: Partition

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return ctype(self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def lanes(self) -> int:
        """Elements of an access of 16 bytes."""
        return ACCESS_BYTES // self.bytes

    @property
    def across(self) -> int:
        """Threads side by side."""
        return self.columns // self.thread_columns

    @property
    def down(self) -> int:
        """Threads below each other."""
        return self.rows // self.thread_rows

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.across * self.down

    @property
    def tiles_down(self) -> int:
        """Tiles that cover the rows of C."""
        return -(-self.gemm.m // self.rows)

    @property
    def tiles_across(self) -> int:
        """Tiles that cover the columns of C."""
        return -(-self.gemm.n // self.columns)

    @property
    def grid(self) -> int:
        """Blocks: one for each tile of C and piece of k."""
        return self.tiles_down * self.tiles_across * self.pieces.count

    @cached_property
    def a(self) -> Side:
        """The left operand. One row, or one step, has the same memory transposed or not."""
        g = self.gemm
        along_k = (not g.transpose_a or g.m == 1) and g.k > 1
        each, threads = self.thread_rows, self.block
        return Side("a", g.a, g.m, g.k, self.rows, self.depth, each, threads, along_k, self.lanes)

    @cached_property
    def b(self) -> Side:
        """The right operand."""
        g = self.gemm
        along_k = (g.transpose_b or g.n == 1) and g.k > 1
        each, threads = self.thread_columns, self.block
        return Side(
            "b", g.b, g.n, g.k, self.columns, self.depth, each, threads, along_k, self.lanes
        )

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both operands."""
        return self.a, self.b

    @property
    def one_tile(self) -> bool:
        """Whether no piece of k is longer than a tile."""
        return self.pieces.size == 1

    @property
    def starts_whole(self) -> bool:
        """Whether the first tile of every piece has all its steps, since another follows."""
        return min(self.pieces.sizes) > 1

    @property
    def tile_size(self) -> int:
        """Elements of shared memory for a tile of both operands."""
        return self.a.size + self.b.size

    @property
    def shared(self) -> int:
        """Bytes of shared memory: two tiles, or one if there are no more."""
        return (1 if self.one_tile else 2) * self.tile_size * self.bytes

    @property
    def registers(self) -> int:
        """Registers of a thread, estimated: its sums, what it multiplies, and what it fetches."""
        elements = self.thread_rows * self.thread_columns + self.thread_rows + self.thread_columns
        elements += sum(side.count * side.access for side in self.sides)
        return elements * (self.bytes // 4) + OTHER_REGISTERS

    @property
    def is_whole(self) -> bool:
        """Whether no tile reaches beyond an operand: then there are no guards."""
        g = self.gemm
        return not (g.m % self.rows or g.n % self.columns or g.k % self.depth)

    @property
    def resident(self) -> int | str:
        """Blocks that a multiprocessor is to have room for, "" if the compiler decides. It would
        take a few registers more than the largest tiles need, and then only one block fits; guards
        and what they remember do need them.
        """
        near = HALF < self.block * self.registers <= MORE * HALF
        return 2 if self.is_whole and near else ""

    @property
    def stride(self) -> int:
        """Elements from the sums of a piece of k to those of the next, whole accesses."""
        return ceil_to(self.gemm.m * self.gemm.n, self.lanes)

    @property
    def workspace(self) -> int:
        """Bytes for the sums of the pieces."""
        return self.pieces.count * self.stride * self.bytes if self.split else 0

    @property
    def split(self) -> bool:
        """Whether pieces of k are summed apart."""
        return self.pieces.count > 1

    # What the template writes.

    @property
    def int(self) -> str:
        """The C type of indices."""
        g, m = self.gemm, self.tiles_down * self.rows
        n, k = self.tiles_across * self.columns, self.pieces.extent * self.depth
        largest = max(m * k, k * n, m * n, self.workspace // self.bytes)
        return index_type(max(largest, g.k))

    @property
    def top(self) -> str:
        """C text for the first row of the block."""
        place = quotient("blockIdx.x", self.tiles_across, self.grid)
        rest = self.grid // self.tiles_across
        return times(remainder(place, self.tiles_down, rest), self.rows)

    @property
    def left(self) -> str:
        """C text for the first column of the block."""
        place = remainder("blockIdx.x", self.tiles_across, self.grid)
        return times(place, self.columns)

    @property
    def piece(self) -> str:
        """C text for the piece of k that the block sums."""
        return f"blockIdx.x / {self.tiles_down * self.tiles_across}"

    @property
    def start(self) -> str:
        """C text for the first step of the piece."""
        if len(self.pieces.sizes) == 1:
            return times("piece", self.pieces.size * self.depth)
        return times(self.pieces.start("piece"), self.depth)

    @property
    def end(self) -> str:
        """C text for the step after the last of the piece, which starts at k."""
        if not self.split:
            return str(self.gemm.k)
        whole = str(self.pieces.size * self.depth)
        if len(self.pieces.sizes) > 1:
            whole = times(self.pieces.length("piece"), self.depth)
        length = f"k + {whole}"
        if not self.gemm.k % self.depth:
            return length
        return f"piece == {self.pieces.count - 1} ? {self.gemm.k} : {length}"

    @property
    def ragged_pieces(self) -> bool:
        """Whether the last tile has fewer steps in one of several pieces."""
        return self.split and self.gemm.k % self.depth > 0

    @property
    def last_steps(self) -> str:
        """C text for the steps of the last tile; `k` is where the next would begin."""
        if self.ragged_pieces:
            return "end - k" if self.one_tile else f"end - (k - {self.depth})"
        return str((self.gemm.k - 1) % self.depth + 1)

    @property
    def warp(self) -> tuple[int, int]:
        """Threads of a warp below each other, and side by side.

        8 side by side read 128 bytes of B in 16-byte accesses, all banks once, and 4 below each
        other 64 bytes of A: the fewest bytes for what a warp multiplies.
        """
        across = max(min(WARP_ACROSS, self.across), WARP // self.down)
        return WARP // across, across

    @property
    def thread_down(self) -> str:
        """C text for a thread's place among those below each other."""
        down, across = self.warp
        warps = quotient("threadIdx.x / 32", self.across // across, self.block // WARP)
        lanes = quotient("threadIdx.x % 32", across, WARP)
        return plus(times(warps, down), lanes)

    @property
    def thread_across(self) -> str:
        """C text for a thread's place among those side by side."""
        _, across = self.warp
        warps = remainder("threadIdx.x / 32", self.across // across, self.block // WARP)
        return plus(times(warps, across), remainder("threadIdx.x", across, self.block))

    @property
    def wide(self) -> bool:
        """Whether a thread's elements of C are stored by accesses of 16 bytes."""
        return self.gemm.n % self.lanes == 0 and self.b.unit > 1

    @property
    def store_guards(self) -> tuple[str, str]:
        """C text of the conditions that a row and a column of the tile are in C; empty if all."""
        g = self.gemm
        row = f"row < {g.m}" if g.m % self.rows else ""
        return row, f"column < {g.n}" if g.n % self.columns else ""

    def unrolled(self, kernel: Kernel) -> bool:
        """Whether the tail is written out for all rows of a thread: if it is short."""
        return self.split or is_short(kernel.tail.lines) or self.thread_rows == 1

    @property
    def tile_rows(self) -> TileRows:
        """The elements of C, as the tail sees them in the stage `gemm`."""
        return TileRows(self.dtype, self.lanes, self.gemm.m, self.gemm.n)

    @property
    def flat_rows(self) -> CudaRows:
        """The elements of C, as the tail sees them in the stage `total`."""
        return CudaRows(self.dtype, self.lanes, 1, self.gemm.m * self.gemm.n)

    @property
    def options(self) -> TileOptions:
        """The cut as it stands in a plan."""
        tile = self.rows, self.columns, self.depth, self.thread_rows, self.thread_columns
        return TileOptions(*tile, self.pieces.count)

    @property
    def partial(self) -> Elementwise:
        """What stands for the tail where the sums of a piece are stored."""
        return Elementwise(
            self.dtype, stores=(Store("sums_of_piece", self.gemm.result, self.dtype),)
        )
