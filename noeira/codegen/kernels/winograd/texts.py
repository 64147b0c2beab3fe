"""What templates of Winograd's algorithm write beside the numbers of a cut."""

from __future__ import annotations

from collections.abc import Iterable

from noeira.codegen.c.rows import CRows
from noeira.codegen.ctext import times
from noeira.codegen.expressions import is_short
from noeira.codegen.kernels.winograd.matrices import TAPS
from noeira.codegen.kernels.winograd.transforms import Transform, transform
from noeira.codegen.kernels.winograd.work import Images, Work
from noeira.codegen.view import Elementwise, Kernel, Operand


class Texts:
    """The texts of any cut of some work."""

    work: Work

    @property
    def algorithm(self) -> str:
        """What it is called, by the results of a tile and the taps."""
        tile = self.work.tile
        return f"Winograd F({tile}x{tile}, {TAPS}x{TAPS})"

    def transform(self, name: str) -> Transform:
        """One of the transforms (see `transform`)."""
        return transform(name, self.work.tile, self.work.dtype)

    def at_tap(self, images: Images, row: int, column: int) -> str:
        """C text that adds the way to a pixel of a tile of images, `row_step` elements a row."""
        steps = times("row_step", row) if row else "0"
        return "".join(f" + {one}" for one in (steps, column * images.padded) if str(one) != "0")

    def at_point(self, apart: int, point: int) -> int:
        """Elements to a point, with so many between points."""
        return apart * point

    def patch_row(self, how: Transform, images: Images) -> int:
        """Elements of a row of the pixels of a square."""
        return len(how.inputs) * images.padded

    def next_size(self, images: Images) -> int:
        """Elements of a row of the next tile that this one has not."""
        return self.work.tile * images.channels

    def patch(self, how: Transform, images: Images) -> int:
        """Elements of all of them."""
        return how.given * images.padded

    @property
    def dtype(self) -> str:
        """The dtype of all of it."""
        return self.work.dtype

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.work.lanes

    @property
    def nothing(self) -> Elementwise:
        """No code before an operand."""
        return Elementwise(self.dtype)

    @property
    def tap_size(self) -> int:
        """Elements of a tap of the weight."""
        return self.work.read.channels * self.work.made.channels

    @property
    def last_tap(self) -> int:
        """The number of the last tap."""
        return TAPS * TAPS - 1

    def inside(self, first: str, length: int) -> str:
        """C text for how much of a tile lies in an image, from its first row or column."""
        return f"{length} - {first} < {self.work.tile} ? {length} - {first} : {self.work.tile}"

    def at_once(self, tail: Elementwise) -> bool:
        """Whether the code after a result is so short that it stands in a transform for each."""
        return is_short(tail.lines)

    def kept_apart(self, tail: Elementwise) -> bool:
        """Whether there are tiles or vectors of which all results are made before that code."""
        ragged = self.work.ragged or bool(self.work.made.pixels.part)
        return ragged or not self.at_once(tail)

    def pixel(self, number: int) -> int:
        """Pixels from a tile's first to that of a number."""
        return number // self.work.tile * self.work.made.width + number % self.work.tile

    def parts_of(self, grid: CRows) -> tuple[tuple[str, str], ...]:
        """What stands in element-wise code for whole vectors, and for the last one of a row."""
        whole, last = ("", ""), ("_part", f", {grid.part}")
        return (*((whole,) if grid.full else ()), *((last,) if grid.part else ()))

    def operands(self, kernel: Kernel, code: Elementwise, own: Iterable[object]) -> list[Operand]:
        """The arguments that element-wise code uses and those of one's own, in order."""
        used = {load.source for load in code.loads} | {store.target for store in code.stores}
        used |= {str(one) for one in own}
        return [one for one in kernel.operands if one.id in used]
