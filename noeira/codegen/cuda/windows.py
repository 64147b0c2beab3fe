"""How CUDA moves windows over images: a thread for 16 bytes of a pixel of the result, or for one
element where channels do not consist of such pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.ctext import index_type
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.windows import Reach, Windows, grid_of, inner_of, numbered, reaches_of
from noeira.ir.body import Body


@dataclass(frozen=True)
class CudaWindows(Windows, CudaRows):
    """Pixels, and pieces of their channels. inner: of windows that are in reach, their own cells.
    most: the largest number that indices reach.
    """

    inner: tuple[Reach, ...] = ()
    most: int = 0

    @property
    def wide(self) -> bool:
        """Whether a thread takes as many channels as an access has."""
        return not self.part

    @property
    def items(self) -> int:
        """What a thread each is for."""
        return self.size // self.width

    @property
    def width(self) -> int:
        """Channels that a thread takes together."""
        return self.lanes if self.wide else 1

    @property
    def int(self) -> str:
        """The C type of indices."""
        return index_type(self.most)

    @property
    def cells_size(self) -> int:
        """Elements of an image of cells, of which windows in reach are made."""
        return self.pixels * self.columns

    @property
    def cell(self) -> str:
        """C text for the number in its image of a cell of a window that is in reach."""
        return numbered([r.each for r in self.inner], [r.others for r in self.inner])

    @property
    def first_cell(self) -> str:
        """C text for that of the first cell of the window."""
        names = [f"first_{r.each}" for r in self.inner]
        return numbered(names, [r.others for r in self.inner])

    @property
    def type(self) -> str:
        """The C type of what a thread takes together."""
        return f"{self.dtype}x{self.lanes}" if self.wide else f"{self.dtype}v"

    @property
    def lane_number(self) -> str:
        """C text for the number of an element of what is taken together."""
        return "lane" if self.wide else "0"

    def lane(self, name: str) -> str:
        """C text for one element of what is taken together."""
        return f"{name}.at[lane]" if self.wide else name


class Windowed(cuda.CudaAnchor):
    """One launch with a thread for some channels of each pixel of the result."""

    def rule(self, body: Body, machine: Arch) -> cuda.LaunchCut:
        items = self.view(body, machine).items
        if cuda.largest(body).size == 1:
            return cuda.LaunchCut(1, 1)
        return cuda.LaunchCut(cuda.blocks_for(items, cuda.BLOCK, machine), cuda.BLOCK)

    def turned(self, body: Body) -> bool:
        """Whether pixels of the result are cells, made of the windows that have them."""
        return False

    def view(self, body: Body, machine: Arch) -> CudaWindows:
        dtype, pixels, channels = grid_of(body)
        reaches, most = reaches_of(body, self.turned(body)), cuda.largest(body).size
        return CudaWindows(
            *(dtype, machine.lanes(dtype), pixels, channels, reaches),
            inner=inner_of(reaches),
            most=most,
        )
