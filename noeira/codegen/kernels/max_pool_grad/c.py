"""How C takes what comes back to the maxima of windows."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.c.anchor import splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.windows import VECTORS, CWindows, RouteCut, Windowed, most_vectors
from noeira.codegen.ctext import plus, times
from noeira.codegen.windows import Reach, grid_of, reaches_of
from noeira.ir.body import Body
from noeira.ir.types import COMPUTED


@dataclass(frozen=True)
class Routes(CWindows):
    """Windows as pixels, which send their elements to cells. The cells are those of lines: a line
    has all that share a coordinate along the first axis.
    """

    @property
    def tiles(self) -> bool:
        """Whether each cell is in one window."""
        return all(reach.axis.tiles for reach in self.reaches)

    @property
    def outer(self) -> Reach:
        """The cells of a window along the first axis."""
        return self.reaches[0]

    @property
    def windows(self) -> Reach:
        """The windows of a cell along the first axis."""
        return Reach(self.outer.axis, "", self.outer.at, turned=True)

    @property
    def sent(self) -> str:
        """C text for the first element of a window of a sample."""
        return times(f"({plus(times('sample', self.pixels), self.pixel)})", self.columns)

    @property
    def lines(self) -> int:
        """Lines of all images."""
        return self.images * self.outer.axis.size

    @property
    def line_size(self) -> int:
        """Elements of a line."""
        return self.image_size // self.outer.axis.size


class MaxPoolGrad(Windowed):
    """Threads share windows where each cell is in one; else lines of cells, and a window that has
    cells of two threads is looked at by both.
    """

    stem = "max_pool_grad"
    Cut = RouteCut
    dtypes = frozenset(COMPUTED)

    def rule(self, body: Body, machine: ISA) -> RouteCut:
        vectors = min(VECTORS, most_vectors(body, machine))
        return RouteCut(splits(body.outputs[0].type.size), vectors)

    def view(self, body: Body, machine: ISA) -> Routes:
        dtype, _, channels = grid_of(body)
        pixels = body.inputs[-1].type.size // channels
        return Routes(dtype, machine.lanes(dtype), pixels, channels, reaches_of(body))
