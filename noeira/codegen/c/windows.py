"""How C moves windows over images: a pixel of the result at a time, some vectors of its channels
together.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import work_of
from noeira.codegen.c.anchor import CAnchor, SplitCut, splits, streams
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.cut import option
from noeira.codegen.rows import pieces_of
from noeira.codegen.windows import Windows, grid_of, reaches_of
from noeira.errors import VerifyError
from noeira.ir.body import Body

# Vectors of channels that are taken together: what has to be reckoned for a cell is shared.
VECTORS = 4


@dataclass(frozen=True)
class RouteCut(SplitCut):
    """vectors: of channels that are taken together; split: as usual."""

    vectors: int = option(1)


@dataclass(frozen=True)
class WindowCut(RouteCut):
    """vectors, split: the same; stream: whether results are stored past the caches."""

    stream: bool = option(False)


@dataclass(frozen=True)
class CWindows(Windows, CRows):
    """Pixels, and vectors of their channels."""

    def remaining(self, vectors: int) -> int:
        """Vectors that are left of a pixel behind those that are taken so many at a time."""
        return self.vectors - self.grouped(vectors) // self.lanes

    def whole_of(self, vectors: int, ragged: bool) -> int:
        """Whole vectors of so many."""
        return vectors - ragged

    def parts(self, vectors: int, ragged: bool) -> tuple[tuple[str, str], ...]:
        """How each of so many vectors is loaded: the `part` and `count` of its functions."""
        whole = (("", ""),) * self.whole_of(vectors, ragged)
        return (*whole, ("_part", f", {self.part}")) if ragged else whole


class Windowed(CAnchor):
    """One function; threads share the pixels of the result. turned: whether these are cells, made
    of the windows that have them.
    """

    Cut = WindowCut

    def rule(self, body: Body, machine: ISA) -> RouteCut:
        vectors = min(VECTORS, most_vectors(body, machine))
        return WindowCut(splits(work_of(body)), vectors, streams(body))

    def check(self, body: Body, cut: RouteCut, machine: ISA) -> None:
        if cut.vectors > (most := most_vectors(body, machine)):
            raise VerifyError(f"vectors must be a whole number from 1 to {most}, not {cut.vectors}")

    def turned(self, body: Body) -> bool:
        """Whether pixels of the result are cells, made of the windows that have them."""
        return False

    def view(self, body: Body, machine: ISA) -> CWindows:
        dtype, pixels, channels = grid_of(body)
        reaches = reaches_of(body, self.turned(body))
        return CWindows(dtype, machine.lanes(dtype), pixels, channels, reaches)


def most_vectors(body: Body, machine: ISA) -> int:
    """Vectors that the channels of a pixel are."""
    dtype, _, channels = grid_of(body)
    return pieces_of(channels, machine.lanes(dtype))
