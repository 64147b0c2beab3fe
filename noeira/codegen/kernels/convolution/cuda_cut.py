"""How a convolution is cut in CUDA: as the products of all groups, and of all phases of a
transposed one, in the tiles of `kernels/gemm/cuda_cut.py`.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import cast

from noeira.codegen.ctext import index_type, plus, quotient, remainder, times
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.kernels.convolution.cuda_product import ADJOINT, WEIGHT, Convolved
from noeira.codegen.kernels.convolution.cuda_sides import left_side, right_side
from noeira.codegen.kernels.convolution.cuda_window import Window, digits
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut
from noeira.codegen.kernels.gemm.cuda_side import Side
from noeira.codegen.kernels.gemm.cuda_tiles import TileRows, Tiles


class ConvolutionCut(CudaGemmCut):
    """A convolution in tiles; `gemm` is a `Convolved`."""

    algorithm = "implicit GEMM"

    @property
    def product(self) -> Convolved:
        """The product."""
        return cast(Convolved, self.gemm)

    @property
    def stage(self) -> str:
        return self.product.kind

    @property
    def layers(self) -> int:
        return self.product.geometry.groups * self.product.phase_count

    @property
    def width(self) -> int:
        return self.product.width

    @cached_property
    def a(self) -> Side:
        g, kind = self.product.geometry, self.product.kind
        own = g.filters_of_group if kind == ADJOINT else g.channels_of_group
        plain = self.side("a", own, kind != WEIGHT and self.follow(own))
        return left_side(self.product, plain)

    @cached_property
    def b(self) -> Side:
        g, kind = self.product.geometry, self.product.kind
        own = g.filters_of_group
        return right_side(self.product, self.side("b", own, kind == ADJOINT and self.follow(own)))

    def follow(self, own: int) -> bool:
        """Whether steps of channels, `own` of them in a group, are fetched some at a time. Else a
        thread keeps to its row or column, where the most is to be reckoned.
        """
        return self.product.flat or own % self.lanes == self.depth % self.lanes == 0

    def side(self, letter: str, own: int, along_k: bool) -> Side:
        """An operand as if its elements lay at equal distances; `own`: channels of a group."""
        p, first = self.product, letter == "a"
        operand, total = (p.a, p.m) if first else (p.b, p.n)
        extent = self.rows if first else self.columns
        each = self.thread_rows if first else self.thread_columns
        tile = (extent, self.depth, each, self.block)
        apart, place = own * p.geometry.groups, self.of_group(own)
        return Side(letter, operand, total, p.k, *tile, along_k, self.lanes, apart, place)

    def of_group(self, channels: int) -> str:
        """C text for the first of so many channels of each group."""
        return times("group", channels) if self.product.geometry.groups > 1 else "0"

    @property
    def windows(self) -> tuple[Window, ...]:
        """The operands that are gathered."""
        return tuple(side for side in self.sides if isinstance(side, Window))

    @property
    def registers(self) -> int:
        # And where each access looks, instead of an address.
        return super().registers + sum(window.registers - 2 for window in self.windows)

    @property
    def is_whole(self) -> bool:
        return super().is_whole and self.product.even

    @property
    def text(self) -> ConvolutionTiles:
        return ConvolutionTiles(self)


class ConvolutionTiles(Tiles):
    """The texts of such a cut."""

    @property
    def product(self) -> Convolved:
        """The product."""
        return cast(Convolved, self.cut.gemm)

    @property
    def int(self) -> str:
        p, m = self.product, self.cut.tiles_down * self.cut.rows
        k = self.cut.pieces.extent * self.cut.depth
        return index_type(max(p.largest, m, k, self.cut.sums))

    @property
    def image_rows(self) -> CudaRows:
        """The elements of the first operand, as a head sees them."""
        return CudaRows(self.cut.dtype, self.cut.lanes, 1, prod(self.product.shapes[0]))

    @property
    def strided(self) -> bool:
        """Whether rows of C are pixels of a phase."""
        return self.product.kind == ADJOINT and max(self.product.geometry.stride) > 1

    @property
    def layers(self) -> tuple[str, ...]:
        p, groups = self.product, self.product.geometry.groups
        count, found = self.cut.layers, list[str]()
        place = quotient("blockIdx.x", self.cut.tiles * self.cut.pieces.count, self.cut.grid)
        if groups > 1:
            found.append(f"const int group = {remainder(place, groups, count)};")
        if p.phase_count > 1:
            phase = quotient(place, groups, count)
            axes = [axis for axis in p.phases if axis.count > 1]
            numbers = digits(phase, [axis.count for axis in axes], p.phase_count)
            pairs = zip(axes, numbers, strict=True)
            names = ", ".join(f"{axis.phase} = {number}" for axis, number in pairs)
            found.append(f"const int {names};")
        if not p.even:
            for axis in p.phases[1:]:
                if not axis.taps_name.isdigit():
                    found.append(f"const int {axis.taps_name} = {axis.chosen(axis.some)};")
            counts = [axis.chosen(axis.counts) for axis in p.phases]
            steps = " * ".join((*counts, str(p.geometry.filters_of_group)))
            found.append(f"const {self.int} steps = {steps};")
        return tuple(found)

    @property
    def end(self) -> str:
        if self.product.even:
            return super().end
        if not self.cut.split:
            return "steps"
        whole = times(self.cut.pieces.length("piece"), self.cut.depth)
        return f"k + {whole} < steps ? k + {whole} : steps"

    @property
    def ragged_pieces(self) -> bool:
        return self.product.even and super().ragged_pieces

    @property
    def last_steps(self) -> str:
        # What is beyond the steps of a phase is 0 in both operands.
        return super().last_steps if self.product.even else str(self.cut.depth)

    def row_lines(self, own: str) -> tuple[str, ...]:
        if not self.strided:
            return super().row_lines(own)
        p, line = self.product, plus("top", own)
        axes = p.phases
        numbers = digits("line", [axis.pixels for axis in axes], p.m)
        places = ", ".join(
            f"{axis.name} = {plus(times(number, axis.stride), axis.phase)}"
            for axis, number in zip(axes, numbers, strict=True)
        )
        row = quotient("line", prod(axis.pixels for axis in axes), p.m)
        for axis in axes:
            row = plus(times(row if row == "0" else f"({row})", axis.size), axis.name)
        return f"const {self.int} line = {line};", f"const {self.int} {places}, row = {row};"

    @property
    def store_guards(self) -> tuple[str, str]:
        row, column = super().store_guards
        p = self.product
        if self.strided:
            lines = f"line < {p.m}" if row else ""
            inside = (f"{a.name} < {a.size}" for a in p.phases if a.size % a.stride)
            row = " && ".join(filter(None, (lines, *inside)))
        if column and p.geometry.groups > 1:
            column = f"column < {times('group', p.n)} + {p.n}"
        return row, column

    def column(self, own: str) -> str:
        p, column = self.product, super().column(own)
        return plus(times("group", p.n), column) if p.geometry.groups > 1 else column

    @property
    def tile_rows(self) -> TileRows:
        p = self.product
        return TileRows(self.cut.dtype, self.cut.lanes, p.rows, p.width)
