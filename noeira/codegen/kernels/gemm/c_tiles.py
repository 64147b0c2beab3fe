"""How a product is cut in C, as its template sees it.

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

from noeira.codegen.c.rows import CRows
from noeira.codegen.cut import option
from noeira.codegen.elements import ctype
from noeira.codegen.expressions import is_short
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.codegen.view import Kernel, Operand
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

    def is_tile(self, rows: int, vectors: int) -> str:
        """C text of the condition that a tile has this size."""
        sizes = (("rows", self.row_tiles, rows), ("vectors", self.panels, vectors))
        tests = [f"{name} == {size}" for name, cut, size in sizes if len(cut.sizes) > 1]
        return f"if ({' && '.join(tests)})"

    @property
    def units(self) -> int:
        """The work of all items, a tile of one vector being one: what threads share evenly."""
        return self.row_tiles.count * self.panels.extent

    @property
    def items(self) -> int:
        """Tiles in all, over all blocks."""
        return self.row_tiles.count * self.panels.count * self.blocks.count

    def item_of(self, unit: str) -> str:
        """C text for the item that a unit of work, a C variable, lies in."""
        wide, narrow = self.panels.size, self.panels.size - 1
        if len(self.panels.sizes) == 1:
            return f"{unit} / {wide}" if wide > 1 else unit
        items = self.row_tiles.count * self.panels.larger
        rest = f"{items} + ({unit} - {items * wide}){f' / {narrow}' if narrow > 1 else ''}"
        return f"{unit} < {items * wide} ? {unit} / {wide} : {rest}"

    @property
    def prefetch(self) -> int:
        """How many steps of k ahead b is fetched."""
        return PREFETCH_STEPS

    @property
    def copy_size(self) -> int:
        """Elements of the copy of a block of a panel."""
        return self.blocks.size * self.panels.size * self.lanes

    @property
    def copied_bytes(self) -> int:
        """Bytes of B that a thread copies at a time."""
        return self.group * self.copy_size * DTYPE_BYTES[self.dtype] if self.pack_b else 0

    @property
    def chained(self) -> bool:
        """Whether a block of k goes on from the sums of the one before."""
        return self.blocks.count > 1 and not self.apart

    @property
    def options(self) -> GemmOptions:
        """The cut as it stands in a plan."""
        counts = self.row_tiles.count, self.panels.count, self.blocks.count, self.group
        return GemmOptions(*counts, self.by_rows, self.apart, self.pack_b, self.split)

    def rows_of(self, gemm: Gemm) -> CRows:
        """C as the elements that a tail runs over."""
        return CRows(self.dtype, self.lanes, gemm.m, gemm.n)

    def tile_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that a tile reads or writes besides op(b), in the kernel's order: those of
        the tail only if it ends in that.
        """
        tail, used = kernel.tail, {kernel.view.a}
        if not self.apart:
            used |= {load.source for load in tail.loads} | {store.target for store in tail.stores}
        return tuple(operand for operand in kernel.operands if operand.id in used)

    def panel_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that a panel needs: those of its tiles, and op(b)."""
        used = {kernel.view.b, *(operand.id for operand in self.tile_operands(kernel))}
        return tuple(operand for operand in kernel.operands if operand.id in used)

    def unroll(self, kernel: Kernel, times: int) -> str:
        """The pragma before a loop over a tile's sums: a short tail is unrolled, so that the sums
        go to it in registers.
        """
        return f"#pragma GCC unroll {times}" if is_short(kernel.tail.lines) else ""

    def overreads(self, gemm: Gemm) -> int:
        """Rows at the end of B from whose last columns a whole vector reaches beyond B's end."""
        rest = gemm.n % self.lanes
        return -(-(self.lanes - rest) // gemm.n) if rest and not self.pack_b else 0

    def dots(self, gemm: Gemm) -> bool:
        """Whether elements are dot products of rows of A and of B: B is transposed, not copied."""
        return gemm.transpose_b and not self.pack_b

    def dot_columns(self, rows: int) -> int:
        """Columns whose dot products are made together: as many as have sums in registers."""
        return min(8 if rows <= 2 else 4, self.lanes)
