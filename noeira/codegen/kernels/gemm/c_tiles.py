"""What the template of a product in C writes of tiles and of the panels that these lie in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.c.rows import CRows
from noeira.codegen.ctext import quotient, remainder, times
from noeira.codegen.expressions import is_short
from noeira.codegen.kernels.gemm.product import Gemm
from noeira.codegen.view import Kernel, Operand

if TYPE_CHECKING:
    from noeira.codegen.kernels.gemm.c_cut import GemmCut


@dataclass(frozen=True)
class Tiles:
    """The texts of a cut."""

    cut: GemmCut

    def is_tile(self, rows: int, vectors: int) -> str:
        """C text of the condition that a tile has this size."""
        sizes = (("rows", self.cut.row_tiles, rows), ("vectors", self.cut.panels, vectors))
        tests = [f"{name} == {size}" for name, cut, size in sizes if len(cut.sizes) > 1]
        return f"if ({' && '.join(tests)})"

    def item_of(self, unit: str) -> str:
        """C text for the item that a unit of work, a C variable, lies in."""
        wide, narrow = self.cut.panels.size, self.cut.panels.size - 1
        if len(self.cut.panels.sizes) == 1:
            return f"{unit} / {wide}" if wide > 1 else unit
        items = self.cut.row_tiles.count * self.cut.panels.larger
        rest = f"{items} + ({unit} - {items * wide}){f' / {narrow}' if narrow > 1 else ''}"
        return f"{unit} < {items * wide} ? {unit} / {wide} : {rest}"

    @property
    def panel(self) -> str:
        """C text for the panel of an `item`, a tile of a block."""
        rows, panels, items = self.cut.row_tiles.count, self.cut.panels.count, self.cut.items
        return remainder(quotient("item", rows, items), panels, items // rows)

    @property
    def block(self) -> str:
        """C text for its block."""
        return quotient("item", self.cut.tile_count, self.cut.items)

    @property
    def row_tile(self) -> str:
        """C text for its tile of rows."""
        return remainder("item", self.cut.row_tiles.count, self.cut.items)

    def rows_of(self, gemm: Gemm) -> CRows:
        """C as the elements that a tail runs over."""
        return CRows(self.cut.dtype, self.cut.lanes, gemm.m, gemm.n)

    def steps_of(self, gemm: Gemm) -> CRows:
        """The steps of k, as a dot product takes them."""
        return CRows(self.cut.dtype, self.cut.lanes, 1, gemm.k)

    def width(self, vectors: int | str) -> int | str:
        """Elements of so many vectors; of a C variable C text."""
        lanes = self.cut.lanes
        return vectors * lanes if isinstance(vectors, int) else times(vectors, lanes)

    def elements(self, rows: int, vectors: int) -> int:
        """Elements of so many rows of a tile."""
        return rows * vectors * self.cut.lanes

    def sums(self, rows: int, vectors: int) -> int:
        """The vectors of so many rows of a tile."""
        return rows * vectors

    def sum(self, row: int, vector: int, vectors: int) -> int:
        """The number of one of these."""
        return row * vectors + vector

    def whole(self, gemm: Gemm, vectors: int) -> int:
        """Vectors of a row of a tile that are whole wherever it lies."""
        return vectors - 1 if self.cut.rest(gemm) else vectors

    def tile_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that a tile reads or writes besides op(b), in the kernel's order: those of
        the tail only if it ends in that.
        """
        tail, used = kernel.tail, {kernel.view.a}
        if not self.cut.apart:
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
