"""How a product is cut in C: the cut, its stages in a plan, and what is read of an edited one.

A tile of `rows` x `vectors` accumulators stays in registers over a block of k. Tiles lie in panels
of columns; a thread takes tiles of rows in all panels, or a contiguous range of panels, and copies
what it must of B to its own stack, so that a call is right for any number of threads. Each element
is summed over ascending k by fma whatever tile, block or thread it falls in: its bits depend on
the operands alone, unless blocks are summed apart or elements are dot products; those have an
order of their own. An output may share memory with an operand of the tail that is read at the
same index if there is one block of k; with several, outputs overlap nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import check_stages, option, read_cut, written
from noeira.codegen.elements import ctype
from noeira.codegen.kernels.gemm.c_tiles import Tiles
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Steps of k that B, where it is not copied, is fetched ahead of its use.
PREFETCH_STEPS = 8
# A thread copies at most so many bytes of B at a time: they have to have room on its stack.
COPIED_BYTES = 1 << 20
# Sums of a tile: more would only be spilt, and be long code.
TILE_VECTORS = 64


@dataclass(frozen=True)
class GemmOptions:
    """A cut as it stands in a plan: into how many pieces, and how these are run (see `GemmCut`)."""

    row_tiles: int = option()
    panels: int = option()
    blocks: int = option(1)
    group: int = option(1)
    by_rows: bool = option(False)
    apart: bool = option(False)
    pack_b: bool = option(False)
    split: bool = option(False)


@dataclass(frozen=True)
class GemmCut:
    """How a GEMM is cut: m into tiles of rows, the vectors that cover n into panels, k into blocks.

    `group` is how many panels a thread takes at a time, tile of rows by tile of rows. `by_rows`
    says whether threads share rows of C; else they share columns. `apart` says whether blocks are
    summed apart, so that threads can share them too, and then added in a stage `total`. `pack_b`
    says whether a block of a panel of B is copied, k by k, before the tiles use it. `split` says
    whether threads share the work at all.
    """

    row_tiles: Partition
    panels: Partition
    blocks: Partition
    group: int
    by_rows: bool
    apart: bool
    pack_b: bool
    dtype: str
    lanes: int
    split: bool = False

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return ctype(self.dtype)

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The tiles that occur, (rows, vectors), the largest first."""
        heights, widths = self.row_tiles.sizes, self.panels.sizes
        return tuple((rows, vectors) for vectors in widths for rows in heights)

    @property
    def units(self) -> int:
        """The work of all items, a tile of one vector being one: what threads share evenly."""
        return self.row_tiles.count * self.panels.extent

    @property
    def tile_count(self) -> int:
        """Tiles of C."""
        return self.row_tiles.count * self.panels.count

    @property
    def items(self) -> int:
        """Tiles in all, over all blocks."""
        return self.tile_count * self.blocks.count

    @property
    def prefetch(self) -> int:
        """How many steps of k ahead b is fetched."""
        return PREFETCH_STEPS

    @property
    def copy_size(self) -> int:
        """Elements of the copy of a block of a panel."""
        return self.blocks.size * self.panels.size * self.lanes

    @property
    def copied(self) -> int:
        """Elements of B that a thread copies at a time, if it does."""
        return self.group * self.copy_size

    @property
    def copied_bytes(self) -> int:
        """Bytes of B that a thread copies at a time."""
        return self.copied * DTYPE_BYTES[self.dtype] if self.pack_b else 0

    @property
    def chained(self) -> bool:
        """Whether a block of k goes on from the sums of the one before."""
        return self.blocks.count > 1 and not self.apart

    @property
    def options(self) -> GemmOptions:
        """The cut as it stands in a plan."""
        counts = self.row_tiles.count, self.panels.count, self.blocks.count, self.group
        return GemmOptions(*counts, self.by_rows, self.apart, self.pack_b, self.split)

    @property
    def text(self) -> Tiles:
        """What the template writes of it."""
        return Tiles(self)

    def rest(self, gemm: Gemm) -> int:
        """Columns of C beyond whole vectors."""
        return gemm.n % self.lanes

    def safe_steps(self, gemm: Gemm) -> int:
        """Steps of k before the last rows of B, from whose last columns a whole vector reaches
        beyond B's end.
        """
        rest = self.rest(gemm)
        return gemm.k - (pieces_of(self.lanes - rest, gemm.n) if rest and not self.pack_b else 0)

    def dots(self, gemm: Gemm) -> bool:
        """Whether elements are dot products of rows of A and of B: B is transposed, not copied."""
        return gemm.transpose_b and not self.pack_b

    def dot_columns(self, rows: int) -> int:
        """Columns whose dot products are made together: as many as have sums in registers."""
        return min(8 if rows <= 2 else 4, self.lanes)


def gemm_stages(cut: GemmCut) -> tuple[Stage, ...]:
    """The stages of a product that is cut so."""
    stage = Stage("gemm", written(cut.options))
    if not cut.apart:
        return (stage,)
    return stage, Stage("total", (("split", True),) if cut.split else ())


def gemm_scratch(gemm: Gemm, cut: GemmCut) -> tuple[Room, ...]:
    """The sums of blocks made apart, or those between blocks if no output can hold them."""
    size = gemm.m * gemm.n
    if cut.apart:
        return (Room("sums", cut.dtype, cut.blocks.count * size),)
    return (Room("partial", cut.dtype, size),) if cut.chained and gemm.partial is None else ()


def gemm_cut(gemm: Gemm, stages: tuple[Stage, ...], dtype: str, isa: ISA) -> GemmCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options, lanes = read_cut(GemmOptions, stages), isa.lanes(dtype)

    def partition(name: str, extent: int) -> Partition:
        count = getattr(options, name)
        if count > extent:
            raise VerifyError(f"{stages[0]}: {name} must be a whole number from 1 to {extent}")
        return Partition(extent, count)

    row_tiles, panels = (
        partition("row_tiles", gemm.m),
        partition("panels", pieces_of(gemm.n, lanes)),
    )
    blocks, group = partition("blocks", gemm.k), partition("group", max(panels.count, 1)).count
    switches = options.by_rows, options.apart, options.pack_b
    cut = GemmCut(row_tiles, panels, blocks, group, *switches, dtype, lanes, options.split)
    check_cut(gemm, stages[0], cut)
    check_stages(GemmOptions, stages, gemm_stages(cut))
    return cut


def check_cut(gemm: Gemm, stage: Stage, cut: GemmCut) -> None:
    """Raises VerifyError for a cut that the template cannot make."""
    several, dots = cut.blocks.count > 1, gemm.dot_products(cut.row_tiles)
    if gemm.transpose_b and not cut.pack_b and (several or not dots):
        raise VerifyError(f"{stage}: pack_b must be true, since b is read transposed")
    if cut.apart and (cut.by_rows or cut.group > 1 or not several):
        raise VerifyError(f"{stage}: apart needs blocks > 1, group = 1 and by_rows = false")
    if cut.row_tiles.size * cut.panels.size > TILE_VECTORS:
        raise VerifyError(
            f"{stage}: a tile of {cut.row_tiles.size} rows by {cut.panels.size} vectors has more "
            f"than {TILE_VECTORS} sums: more row_tiles or panels"
        )
    if cut.copied_bytes > COPIED_BYTES:
        raise VerifyError(
            f"{stage}: pack_b copies {cut.copied_bytes:,} bytes of b at a time, at most "
            f"{COPIED_BYTES:,} have room on a stack: more blocks or panels, or a smaller group"
        )
