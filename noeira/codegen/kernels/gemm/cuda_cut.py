"""How a product is cut in CUDA: the cut, its stages in a plan, and what is read of an edited one.

A block makes a tile of `rows` x `columns` elements of C, each of its threads `thread_rows` x
`thread_columns` of them in registers. `depth` steps of k at a time lie in shared memory, twice:
while one tile of the operands is used, the next is on its way from global memory, in registers.
Each element is summed over ascending k by fma, whatever the tile: its bits depend on the operands
alone, unless k is split; the sums of the pieces are then added in order by a second stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from noeira.codegen.cuda.anchor import launched
from noeira.codegen.cuda.arch import ACCESS_BYTES, WARP, Arch, ceil_to
from noeira.codegen.cuda.launches import within
from noeira.codegen.cut import check_stages, option, read_cut, written
from noeira.codegen.elements import ctype
from noeira.codegen.kernels.gemm.cuda_side import Side
from noeira.codegen.kernels.gemm.cuda_tiles import Tiles
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.plan import Stage
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


CutLike = TypeVar("CutLike", bound="CudaGemmCut")


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
    def stage(self) -> str:
        """The name of the stage that makes the products."""
        return "gemm"

    @property
    def layers(self) -> int:
        """Products of the same shape that are made beside each other."""
        return 1

    @property
    def width(self) -> int:
        """Elements in memory between rows of C."""
        return self.gemm.n

    @property
    def size(self) -> int:
        """Elements of all that is made."""
        return self.gemm.size

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
    def tiles(self) -> int:
        """Tiles of a product."""
        return self.tiles_down * self.tiles_across

    @property
    def grid(self) -> int:
        """Blocks: one for each tile of C and piece of k."""
        return self.tiles * self.pieces.count * self.layers

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
        return ceil_to(self.size, self.lanes)

    @property
    def sums(self) -> int:
        """Elements of the sums of pieces that are made apart."""
        return self.pieces.count * self.stride if self.split else 0

    @property
    def scratch(self) -> tuple[Room, ...]:
        """Where they lie."""
        return (Room("piece_sums", self.dtype, self.sums),) if self.split else ()

    @property
    def split(self) -> bool:
        """Whether pieces of k are summed apart."""
        return self.pieces.count > 1

    @property
    def warp(self) -> tuple[int, int]:
        """Threads of a warp below each other, and side by side.

        8 side by side read 128 bytes of B in 16-byte accesses, all banks once, and 4 below each
        other 64 bytes of A: the fewest bytes for what a warp multiplies.
        """
        across = max(min(WARP_ACROSS, self.across), WARP // self.down)
        return WARP // across, across

    @property
    def wide(self) -> bool:
        """Whether a thread's elements of C are stored by accesses of 16 bytes."""
        return self.gemm.n % self.lanes == 0 and self.b.unit > 1

    @property
    def options(self) -> TileOptions:
        """The cut as it stands in a plan."""
        tile = self.rows, self.columns, self.depth, self.thread_rows, self.thread_columns
        return TileOptions(*tile, self.pieces.count)

    @property
    def text(self) -> Tiles:
        """What the template writes of it."""
        return Tiles(self)


def gemm_launches(cut: CudaGemmCut) -> tuple[Stage, ...]:
    """The stages of a product that is cut so."""
    launch = ("grid", cut.grid), ("block", cut.block)
    stage = launched(cut.stage, (*launch, *written(cut.options)), cut.shared)
    if not cut.split:
        return (stage,)
    accesses = max(1, cut.size // cut.lanes)
    total = ("grid", pieces_of(accesses, TOTAL_BLOCK)), ("block", TOTAL_BLOCK)
    return stage, launched("total", total)


def cuda_gemm_cut(
    gemm: Gemm,
    stages: tuple[Stage, ...],
    dtype: str,
    arch: Arch,
    kind: type[CutLike] = CudaGemmCut,
) -> CutLike:
    """The cut, of a kind, that stages describe. Raises VerifyError if they do not fit the shape or
    the GPU.
    """
    options, stage = read_cut(TileOptions, stages), stages[0]
    for name in ("rows", "columns"):
        most = getattr(options, name)
        if getattr(options, f"thread_{name}") > most:
            raise VerifyError(f"{stage}: thread_{name} must be at most {most}, as {name} is")
    tiles = pieces_of(gemm.k, options.depth)
    if options.splits > tiles:
        what = f"k = {gemm.k} has {tiles} tiles of {options.depth} steps"
        raise VerifyError(f"{stage}: splits must be a whole number from 1 to {tiles}: {what}")
    tile = options.rows, options.columns, options.depth
    each = options.thread_rows, options.thread_columns
    cut = kind(gemm, dtype, *tile, *each, Partition(tiles, options.splits))
    check_threads(stage, cut, arch)
    check_room(stage, cut, arch)
    check_stages(TileOptions, stages, gemm_launches(cut))
    within(stages, arch)
    for total in stages[1:]:
        if dict(total.options)["block"] % WARP:
            raise VerifyError(f"{total}: block must be a multiple of {WARP}")
    return cut


def check_threads(stage: Stage, cut: CudaGemmCut, arch: Arch) -> None:
    """Raises VerifyError if a block of these tiles has too few or too many threads."""
    what = f"{stage}: a block has rows / thread_rows · columns / thread_columns ="
    if cut.block < WARP:
        raise VerifyError(
            f"{what} {cut.block} threads, at least {WARP} are needed: make rows or columns larger"
        )
    if cut.block > arch.block_threads:
        raise VerifyError(
            f"{what} {cut.block:,} threads, {arch.name} has at most {arch.block_threads:,} in a "
            "block: make thread_rows or thread_columns larger"
        )


def check_room(stage: Stage, cut: CudaGemmCut, arch: Arch) -> None:
    """Raises VerifyError if the GPU has too little for a block or a thread of these tiles."""
    if cut.registers > arch.thread_registers:
        raise VerifyError(
            f"{stage}: a thread with {cut.thread_rows} x {cut.thread_columns} sums needs about "
            f"{cut.registers} registers, {arch.name} has at most {arch.thread_registers}: make "
            "thread_rows, thread_columns or depth smaller"
        )
    if cut.registers * cut.block > arch.block_registers:
        raise VerifyError(
            f"{stage}: {cut.block} threads with about {cut.registers} registers each are more than "
            f"the {arch.block_registers:,} registers that {arch.name} has for a block: make rows "
            "or columns smaller"
        )
    if cut.shared > arch.most_shared:
        raise VerifyError(
            f"{stage}: a block needs {cut.shared:,} bytes of shared memory for its tiles, "
            f"{arch.name} has at most {arch.most_shared:,}: make depth, rows or columns smaller"
        )
