"""How convolutions are cut in C as products of matrices of patches: the cut, and what follows.

Of a walk's matrix of patches a thread copies a block, as many rows as some tiles have by as many
columns as a block of steps: each panel of the other factor then goes through all of these tiles.
The sums of a tile stay in registers over a block of steps; those of several blocks are added in
order, in the thread's own memory. So the bits of an element do not depend on which thread makes it,
nor on how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.rows import LINE_BYTES, CRows
from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.cut import written
from noeira.codegen.expressions import is_short
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.patches.options import STAGE, PatchOptions
from noeira.codegen.kernels.patches.product import PatchProduct
from noeira.codegen.kernels.patches.walk_cut import WalkCut
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.codegen.view import Kernel, Missing, Operand
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Rows of a copied block that lie so many bytes apart would share few lines of a cache.
ALIASED_BYTES = 2048


@dataclass(frozen=True)
class PatchCut:
    """A product of patches that is cut."""

    product: PatchProduct
    options: PatchOptions

    template, algorithm = "patches", "direct"

    def stages(self) -> tuple[Stage, ...]:
        """The stages as they stand in a plan."""
        split = (("split", True),) if self.options.split else ()
        first = (Stage("pack", split),) if self.options.pack else ()
        last = (Stage("total", split),) if self.apart else ()
        return (*first, Stage(STAGE, written(self.options, STAGE)), *last)

    def rooms(self) -> tuple[Room, ...]:
        """What the stages share."""
        dtype, slots = self.product.dtype, self.options.slots
        packed = (Room("packed", dtype, self.product.packed_size),) if self.options.pack else ()
        partial = (Room("partial", dtype, slots * self.product.made),) if self.apart else ()
        return packed + partial

    @cached_property
    def walks(self) -> tuple[WalkCut, ...]:
        """The cuts of all walks."""
        return tuple(WalkCut(self.product, self.options, one) for one in self.product.patches)

    @cached_property
    def panels(self) -> Partition:
        """The panels of a group's columns, in vectors."""
        width = self.product.width
        return Partition(width, pieces_of(width, self.options.vectors))

    @cached_property
    def parts(self) -> Partition:
        """The parts of a group's panels."""
        return Partition(self.panels.count, min(self.options.parts, self.panels.count))

    @property
    def slots(self) -> Partition:
        """The parts of the blocks of steps."""
        return Partition(self.walks[0].blocks, min(self.options.slots, self.walks[0].blocks))

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The tiles that occur, (rows, vectors), the largest first."""
        rows = {size for walk in self.walks for size in walk.row_tiles.sizes}
        return tuple((r, v) for v in self.panels.sizes for r in sorted(rows, reverse=True))

    @property
    def chained(self) -> bool:
        """Whether sums go from a block of steps to the next."""
        return any(walk.blocks > 1 for walk in self.walks)

    @property
    def apart(self) -> bool:
        """Whether a last stage makes the result of sums that are made apart: of several slots, or
        of groups that are taken together.
        """
        return self.options.slots > 1 or self.product.diagonal

    @property
    def placed(self) -> bool:
        """Whether rows of a walk's product lie apart in the result."""
        return not all(walk.patches.walk.whole for walk in self.walks) and not self.product.turned

    @cached_property
    def plain(self) -> bool:
        """Whether the matrix of patches is the image as it lies: of a kernel of one tap, where
        nothing is done to the image.
        """
        made = self.product.headed
        return not made and len(self.walks) == 1 and self.walks[0].patches.walk.plain

    @cached_property
    def copy_row(self) -> int:
        """Elements between rows of a copied block: room for a vector that begins at its last
        element, by whole cache lines. Of the image, if that is the matrix.
        """
        if self.plain:
            return self.walks[0].patches.walk.channels
        bytes = DTYPE_BYTES[self.product.dtype]
        line = max(LINE_BYTES // bytes, self.product.lanes)
        columns = max(walk.copied_columns for walk in self.walks)
        row = pieces_of(columns + self.product.lanes, line) * line
        return row + line if row * bytes % ALIASED_BYTES == 0 else row

    @property
    def copy_size(self) -> int:
        """Elements of a copied block."""
        if self.plain:
            return 0
        return max(walk.copied_rows for walk in self.walks) * self.copy_row

    @property
    def part_width(self) -> int:
        """The most columns of a part, in whole vectors."""
        return self.parts.size * self.panels.size * self.product.lanes

    @property
    def block_rows(self) -> int:
        """The most rows of the product that a thread works on at a time."""
        return max(walk.block_rows for walk in self.walks)

    @property
    def sums_size(self) -> int:
        """Elements of the sums that go from a block of steps to the next."""
        return self.block_rows * self.part_width if self.chained else 0

    @property
    def own_bytes(self) -> int:
        """Bytes that a thread has of its own."""
        rows = self.block_rows * 8 if self.placed else 0
        return (self.copy_size + self.sums_size) * DTYPE_BYTES[self.product.dtype] + rows

    @property
    def a_row(self) -> int:
        """Elements of a copied block between rows of the product."""
        return 1 if self.product.turned else self.copy_row

    @property
    def a_step(self) -> int:
        """Elements of it between steps."""
        return self.copy_row if self.product.turned else 1

    def a_offset(self, row: int) -> int:
        """Elements of a copied block to that row of the product."""
        return row * self.a_row

    def width(self, vectors: int) -> int:
        """Elements of so many vectors."""
        return vectors * self.product.lanes

    def sums(self, rows: int, vectors: int) -> int:
        """The vectors of so many rows of a tile."""
        return rows * vectors

    def sum(self, row: int, vector: int, vectors: int) -> int:
        """The number of one of these."""
        return row * vectors + vector

    def whole(self, vectors: int) -> int:
        """Vectors of a row of a tile that are whole wherever it lies."""
        return vectors - 1 if self.product.rest else vectors

    def is_tile(self, rows: int, vectors: int) -> str:
        """C text of the condition that a tile has this size."""
        heights = {height for height, _ in self.tiles}
        widths = {width for _, width in self.tiles}
        sizes = (("rows", heights, rows), ("vectors", widths, vectors))
        return " && ".join(f"{name} == {size}" for name, kinds, size in sizes if len(kinds) > 1)

    @property
    def heights(self) -> frozenset[int]:
        """The rows that tiles have."""
        return frozenset(rows for rows, _ in self.tiles)

    def b_step(self, vectors: int) -> int:
        """Elements of the other factor between steps, for a panel of so many vectors."""
        return self.width(vectors) if self.options.pack else self.product.row

    def run_row(self, walk: WalkCut) -> CRows:
        """The elements of a run."""
        return CRows(self.product.dtype, self.product.lanes, 1, walk.patches.length)

    def pixel_row(self, walk: WalkCut) -> CRows:
        """The elements of a pixel of a run."""
        return CRows(self.product.dtype, self.product.lanes, 1, walk.patches.own)

    def tile_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands of the tail."""
        used = {load.source for load in kernel.tail.loads}
        used |= {store.target for store in kernel.tail.stores}
        return tuple(one for one in kernel.operands if one.id in used and not self.apart)

    def read_operands(self, kernel: Kernel, image: Operand | Missing) -> tuple[Operand, ...]:
        """The image, or the operands of the head that makes it."""
        used = {load.source for load in kernel.head.loads} | {str(image)}
        return tuple(one for one in kernel.operands if one.id in used)

    def walk_operands(
        self, kernel: Kernel, walk: WalkCut, image: Operand | Missing, factor: Operand
    ) -> tuple[Operand, ...]:
        """The operands that the product of a walk needs."""
        used = {one.id for one in self.tile_operands(kernel)}
        used |= set() if walk.empty else {one.id for one in self.read_operands(kernel, image)}
        used |= set() if self.options.pack else {factor.id}
        return tuple(one for one in kernel.operands if one.id in used)

    def unroll(self, kernel: Kernel, times: int) -> str:
        """The pragma before a loop over a tile's sums: a short tail is unrolled, so that the sums
        go to it in registers.
        """
        return f"#pragma GCC unroll {times}" if is_short(kernel.tail.lines) else ""

    def packed_start(self, number: int) -> int:
        """Where the other factor of a walk begins among those that are packed."""
        before = self.walks[:number]
        steps = sum(self.product.steps_of(walk.patches) for walk in before)
        return steps * self.product.groups * self.width(self.product.width)

    def packed_panel(self, walk: WalkCut) -> str:
        """C text for where a `panel` of a `group` begins among them."""
        steps = self.product.steps_of(walk.patches)
        group = (
            times("group", steps * self.width(self.product.width))
            if self.product.groups > 1
            else "0"
        )
        panel = (
            self.panels.start("panel", self.product.lanes * steps) if self.panels.count > 1 else "0"
        )
        return plus(str(self.packed_start(walk.number)), group, panel)

    def packed_pieces(self, walk: WalkCut) -> int:
        """The pieces in which a panel is packed: of places, or of taps."""
        return walk.chunks.count if self.product.turned else len(walk.patches.walk.taps)

    def packed_items(self, walk: WalkCut) -> int:
        """These pieces of all panels and groups."""
        return self.packed_pieces(walk) * self.panels.count * self.product.groups

    def packed_piece(self, walk: WalkCut) -> str:
        """C text for the piece of an `item`."""
        return remainder("item", self.packed_pieces(walk), self.packed_items(walk))

    def panel_of_item(self, walk: WalkCut) -> str:
        """C text for its panel."""
        pieces = self.packed_pieces(walk)
        text = quotient("item", pieces, self.packed_items(walk))
        return remainder(text, self.panels.count, self.packed_items(walk) // pieces)

    def group_of_item(self, walk: WalkCut) -> str:
        """C text for its group."""
        inner = self.packed_pieces(walk) * self.panels.count
        return quotient("item", inner, self.packed_items(walk))

    @property
    def weight_place(self) -> str:
        """C text for where a tap of the weight has what `column` of a group, `own_group` of its
        bundle, reads at a `step`.
        """
        g = self.product
        columns, own = g.group_columns, g.group_own
        row, inner = ("column", "step") if g.crossed else ("step", "column")
        each = own if g.crossed else columns
        bundle = times("group", each * g.bundle) if g.groups > 1 else "0"
        return plus(times(row, g.row), bundle, times("own_group", each), inner)

    def panel_width(self, panel: str) -> str:
        """C text for the elements of a row of a panel."""
        return times(self.panels.length(panel), self.product.lanes)
