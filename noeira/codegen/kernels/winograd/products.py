"""The products of matrices at the points of Winograd's algorithm, one a point, as they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.winograd.work import Work
from noeira.codegen.rows import pieces_of

# Steps that are summed in registers before they are added to what is in memory: long sums lose more
# digits than all transforms do.
STEPS = 64


@dataclass(frozen=True)
class Products:
    """sums[point] [rows, columns] = a[point] b[point]: rows in tiles of at most `most` rows, columns
    in `panels` of vectors.

    rows: the numbers of rows that occur; row, step: elements of `a` between rows and between steps;
    a_size, b_size: elements between points, of which `b` has `width` in a step.
    """

    work: Work
    rows: tuple[int, ...]
    most: int
    panels: Partition
    row: int
    step: int
    a_size: int
    b_size: int

    @property
    def steps(self) -> int:
        """Steps at a time."""
        return STEPS

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
