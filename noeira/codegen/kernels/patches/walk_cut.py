"""What follows from a cut for one walk of a product of patches: its tiles and blocks of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.patches.matrix import Patches
from noeira.codegen.kernels.patches.options import PatchOptions
from noeira.codegen.kernels.patches.product import PatchProduct
from noeira.codegen.rows import pieces_of

# Vectors of a patch whose copies are written one after the other.
STEADY = 40


@dataclass(frozen=True)
class WalkCut:
    """The cut of one walk's product.

    Tiles are of any rows, or pieces of runs that are long, each divided alike. Blocks of steps are
    whole runs, or pieces of one.
    """

    product: PatchProduct
    options: PatchOptions
    patches: Patches

    @property
    def number(self) -> int:
        """Which of the walks it is."""
        return self.patches.walk.number

    @property
    def formula(self) -> str:
        """What it is, of a group, in the words of matrices."""
        product = self.product
        rows, steps = product.rows_of(self.patches), product.steps_of(self.patches)
        of = f"patches of {product.image}"
        left = f"transpose({of} [{steps}, {rows}])" if product.turned else f"{of} [{rows}, {steps}]"
        groups = f", in each of {product.groups} groups" if product.groups > 1 else ""
        right = f"{product.factor} [{steps}, {product.columns}]"
        return f"[{rows}, {product.columns}] = {left} @ {right}{groups}"

    @property
    def empty(self) -> bool:
        """Whether no tap meets its places: sums of nothing."""
        return not self.patches.runs

    @cached_property
    def by_runs(self) -> bool:
        """Whether tiles of rows are pieces of runs of one tap: else they are of any rows."""
        one_tap = self.patches.span == 1
        return self.product.turned and one_tap and self.patches.length >= self.options.tile

    @cached_property
    def row_tiles(self) -> Partition:
        """Tiles of all rows, or of those of one run."""
        rows = self.patches.length if self.by_runs else self.product.rows_of(self.patches)
        return Partition(rows, pieces_of(rows, self.options.tile))

    @property
    def row_runs(self) -> int:
        """Whole runs whose tiles a thread works on at a time; 0 where it has fewer, of one run."""
        most = self.options.block // self.row_tiles.count if self.by_runs else 0
        return min(most, len(self.patches.runs))

    @property
    def tiles(self) -> int:
        """Tiles of rows in all."""
        return self.row_tiles.count * (len(self.patches.runs) if self.by_runs else 1)

    def tile_start(self, tile: str) -> str:
        """C text for the first row of a tile, a C variable."""
        if not self.by_runs:
            return self.row_tiles.start(tile)
        per = self.row_tiles.count
        run = times(quotient(tile, per, self.tiles), self.patches.length)
        if per == 1:
            return run
        return plus(run, self.row_tiles.start(f"({tile} % {per})"))

    def tile_rows(self, tile: str) -> str:
        """C text for its rows."""
        if self.by_runs and self.row_tiles.count > 1:
            return self.row_tiles.length(f"({tile} % {self.row_tiles.count})")
        return self.row_tiles.length(tile)

    @cached_property
    def runs_of_block(self) -> int:
        """Whole runs of a block of steps, at least one."""
        return max(self.options.depth // self.patches.length, 1)

    @cached_property
    def pieces(self) -> Partition:
        """The pieces of a run of one tap that are blocks of steps; one where these are of whole
        runs.
        """
        length = self.patches.length
        one_tap = self.patches.span == 1
        return Partition(length, pieces_of(length, self.options.depth) if one_tap else 1)

    @cached_property
    def chunks(self) -> Partition:
        """Blocks of steps where these are places."""
        steps = self.product.steps_of(self.patches)
        return Partition(steps, pieces_of(steps, self.options.depth))

    @property
    def blocks(self) -> int:
        """Blocks of steps: of one that is empty the sums are stored all the same."""
        if self.product.turned:
            return self.chunks.count
        if self.empty:
            return 1
        runs = pieces_of(len(self.patches.runs), self.runs_of_block)
        return len(self.patches.runs) * self.pieces.count if self.pieces.count > 1 else runs

    @property
    def deepest(self) -> int:
        """The most steps of a block."""
        if self.product.turned:
            return self.chunks.size
        if self.pieces.count > 1:
            return self.pieces.size
        return min(self.runs_of_block, max(len(self.patches.runs), 1)) * self.patches.length

    @property
    def block_rows(self) -> int:
        """The most rows of the product that a thread works on at a time."""
        if self.row_runs:
            return self.row_runs * self.patches.length
        return min(self.options.block, self.tiles) * self.row_tiles.size

    @property
    def copied_rows(self) -> int:
        """The most rows of the matrix of patches that are copied at a time."""
        return self.deepest if self.product.turned else self.block_rows

    @property
    def copied_columns(self) -> int:
        """The most columns of it: where they are rows of the product, those of all runs that these
        lie in.
        """
        if not self.product.turned:
            return self.deepest
        if self.by_runs:
            return self.block_rows
        if self.steady:
            return self.patches.steps
        length = self.patches.length
        runs = min(pieces_of(self.block_rows - 1, length) + 1, len(self.patches.runs))
        return runs * length

    @property
    def pieced(self) -> bool:
        """Whether a block has a piece of one run: else it has whole runs."""
        if self.product.turned:
            return self.by_runs and not self.row_runs
        return self.pieces.count > 1

    @property
    def steady(self) -> bool:
        """Whether all runs are copied whatever the block, since they are few and short: that is
        written one after the other.
        """
        if self.product.turned:
            always = not self.by_runs or self.row_runs == len(self.patches.runs)
        else:
            always = self.blocks == 1
        if self.pieced or self.empty or not always:
            return False
        return len(self.patches.runs) * pieces_of(self.patches.length, self.product.lanes) <= STEADY

    @property
    def copied_place(self) -> str:
        """C text that adds to where a copied block begins the way to its first row that is used."""
        if not self.product.turned or self.pieced:
            return ""
        run = "" if self.steady else f" - run * {self.patches.length}"
        return f" + block_top{run}"

    def run_of(self, tile: str) -> str:
        """C text for the run that a tile is a piece of."""
        return quotient(tile, self.row_tiles.count, self.tiles)

    def run_end(self, tile: str) -> str:
        """C text for the tile behind the last of the runs that are worked on together."""
        return f"({self.run_of(tile)} + {max(self.row_runs, 1)}) * {self.row_tiles.count}"

    @property
    def run_of_block(self) -> str:
        """C text for the run that a `block` of steps is a piece of."""
        return quotient("block", self.pieces.count, self.blocks)

    @property
    def begin_of_block(self) -> str:
        """C text for where in the run it begins."""
        return self.pieces.start(f"(block % {self.pieces.count})")

    @property
    def depth_of_block(self) -> str:
        """C text for its steps."""
        return self.pieces.length(f"(block % {self.pieces.count})")

    @property
    def units(self) -> int:
        """What threads share evenly: tiles of rows of all parts, groups and slots."""
        return self.tiles * self.options.parts * self.product.groups * self.options.slots

    def part_of(self, unit: str) -> str:
        """C text for the part of a unit."""
        return remainder(
            quotient(unit, self.tiles, self.units), self.options.parts, self.units // self.tiles
        )

    def group_of(self, unit: str) -> str:
        """C text for its group."""
        inner = self.tiles * self.options.parts
        return remainder(
            quotient(unit, inner, self.units), self.product.groups, self.units // inner
        )

    def slot_of(self, unit: str) -> str:
        """C text for its slot."""
        return quotient(unit, self.units // self.options.slots, self.units)

    def tile_of(self, unit: str) -> str:
        """C text for its tile of rows."""
        return remainder(unit, self.tiles, self.units)
