"""Transforms of squares of vectors, M X M', as templates write them: one axis, then the other."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.kernels.winograd.lines import Lines, lines_of
from noeira.codegen.kernels.winograd.matrices import Matrix, matrices, transposed


@dataclass(frozen=True)
class Transform:
    """name: what it is of; matrix: M; formula: of one axis, as comments have it."""

    name: str
    matrix: Matrix
    formula: str
    dtype: str

    @property
    def lines(self) -> Lines:
        """The statements of one axis."""
        return lines_of(self.matrix, self.dtype)

    @property
    def inputs(self) -> range:
        """The elements of one axis of X."""
        return range(len(self.matrix[0]))

    @property
    def outputs(self) -> range:
        """Those of the result."""
        return range(len(self.matrix))

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the matrix, for a comment."""
        return tuple("  ".join(f"{one!s:>6}" for one in row) for row in self.matrix)

    @property
    def made(self) -> int:
        """Vectors of the result."""
        return len(self.matrix) ** 2

    @property
    def given(self) -> int:
        """Vectors of X."""
        return len(self.matrix[0]) ** 2

    def number(self, row: int, column: int) -> int:
        """The number of a vector of the result."""
        return row * len(self.matrix) + column

    def number_given(self, row: int, column: int) -> int:
        """The number of a vector of X."""
        return row * len(self.matrix[0]) + column


def transform(name: str, tile: int, dtype: str) -> Transform:
    """What becomes of images, cotangents (`spread`) and weights (`taps`) before the products, and
    of these after them: the result of a convolution, or a gradient of the weight (`weight`).
    """
    known = matrices(tile)
    matrix, formula = {
        "image": (known.image, "B' x"),
        "taps": (known.taps, "G x"),
        "result": (known.result, "A' x"),
        "spread": (transposed(known.result), "A x"),
        "weight": (transposed(known.taps), "G' x"),
    }[name]
    return Transform(name, matrix, formula, dtype)
