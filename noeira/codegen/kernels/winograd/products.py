"""The products of matrices at the points of Winograd's algorithm, one a point, as they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.ctext import times
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.winograd.work import Work
from noeira.codegen.rows import pieces_of

# Steps that are summed in registers before they are added to what is in memory: long sums lose more
# digits than all transforms do.
STEPS = 64


@dataclass(frozen=True)
class Chunks:
    """`extent` cut into pieces of `size`, of which the last may be smaller."""

    extent: int
    size: int

    @property
    def count(self) -> int:
        """How many there are."""
        return pieces_of(self.extent, self.size)

    def start(self, index: str, scale: int = 1) -> str:
        """C text for where the piece of that index, a C variable, begins, times a number."""
        return times(index, self.size * scale)

    def length(self, index: str) -> str:
        """C text for the size of the piece of that index."""
        if self.extent % self.size == 0:
            return str(self.size)
        last, rest = self.count - 1, self.extent % self.size
        return f"({index} < {last} ? {self.size} : {rest})"


@dataclass(frozen=True)
class Products:
    """sums[point] [rows, columns] = a[point] b[point]: rows in tiles of at most `most` rows,
    columns in `panels` of vectors.

    rows: the numbers of rows that occur; steps: that are summed at a time; row, step, chunk:
    elements of `a` between rows, between steps, and between so many steps; a_size, b_size: elements
    between points, of which `b` has `width` in a step.
    """

    work: Work
    rows: tuple[int, ...]
    most: int
    panels: Partition
    steps: int
    row: int
    step: int
    chunk: int
    a_size: int
    b_size: int

    @property
    def width(self) -> int:
        """Elements of a row of `b`, and of sums: those of the widest panel."""
        return self.panels.size * self.work.lanes

    @property
    def sums_size(self) -> int:
        """Elements of sums between points."""
        return max(self.rows) * self.width + self.work.line

    @property
    def heights(self) -> tuple[int, ...]:
        """The rows of tiles that occur, the most first."""
        found = set[int]()
        for rows in self.rows:
            pieces = pieces_of(rows, self.most)
            found |= {rows // pieces, pieces_of(rows, pieces)}
        return tuple(sorted(found, reverse=True))

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The tiles that occur, rows and vectors, the largest first."""
        return tuple((rows, vectors) for vectors in self.panels.sizes for rows in self.heights)

    def is_tile(self, rows: int, vectors: int) -> str:
        """C text of the condition that a tile has this size."""
        sizes = (("height", self.heights, rows), ("vectors", self.panels.sizes, vectors))
        tests = [f"{name} == {size}" for name, known, size in sizes if len(known) > 1]
        return f"if ({' && '.join(tests)})"

    def at_row(self, row: int) -> int:
        """Elements of `a` to so many rows further."""
        return row * self.row

    def at_sum(self, row: int, vector: int) -> int:
        """Elements of sums to a vector of a row."""
        return row * self.width + self.at_vector(vector)

    def at_vector(self, vector: int) -> int:
        """Elements of so many vectors."""
        return vector * self.work.lanes
