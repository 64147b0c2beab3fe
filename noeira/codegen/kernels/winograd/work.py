"""What Winograd's algorithm is to do for one of the three convolutions: images in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.rows import LINE_BYTES, CRows
from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.kernels.winograd.matrices import TAPS
from noeira.codegen.rows import pieces_of
from noeira.ir.geometry import Geometry
from noeira.ir.types import COMPUTED, DTYPE_BYTES

# The ops, of which the adjoint in x is the same work as the convolution itself.
FORWARD, ADJOINT, WEIGHT = "convolution", "transposed_convolution", "convolution_weight"
# The numbers of taps that a tile may have results for, in an axis.
TILES = (2, 4)
# Fewer channels than this leave most of the work to the transforms.
LEAST_CHANNELS = 16
# A tile of 4 x 4 costs 36 products, a pixel 9, and a transform of the weights as much as a few
# tiles; with that and the transforms of images a tile is worth so many pixels.
LEAST_PIXELS, LEAST_TILES = 6, 4


def applies(geometry: Geometry, dtype: str) -> bool:
    """Whether these kernels can do a convolution, as all three ops of it: 3 x 3 taps one beside the
    other, stride 1, one group.
    """
    once = (1, 1)
    return (
        dtype in COMPUTED
        and geometry.kernel == (TAPS, TAPS)
        and geometry.stride == geometry.dilation == once
        and geometry.groups == 1
    )


def pays(geometry: Geometry, dtype: str) -> bool:
    """Whether they are faster than direct ones by rule. Who computes in f64 wants its digits."""
    if not applies(geometry, dtype) or dtype != "f32":
        return False
    tiles = geometry.batch
    for out in geometry.out:
        tiles *= pieces_of(out, max(TILES))
    enough = min(geometry.channels, geometry.filters) >= LEAST_CHANNELS and tiles >= LEAST_TILES
    return enough and geometry.batch * geometry.pixels >= LEAST_PIXELS * tiles


@dataclass(frozen=True)
class Images:
    """Images [batch, height, width, channels] whose channels are taken `lanes` at a time."""

    batch: int
    height: int
    width: int
    channels: int
    dtype: str
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors that cover the channels of a pixel."""
        return pieces_of(self.channels, self.lanes)

    @property
    def padded(self) -> int:
        """Channels with those that fill the last vector up."""
        return self.vectors * self.lanes

    @property
    def row(self) -> int:
        """Elements of an image's row."""
        return self.width * self.channels

    @cached_property
    def pixels(self) -> CRows:
        """The pixels of all images as rows."""
        rows = self.batch * self.height * self.width
        return CRows(self.dtype, self.lanes, rows, self.channels)


@dataclass(frozen=True)
class Work:
    """read: the images that tiles with a border of 2 are read of; made: those that are cut into
    tiles, the result, or of the weight's gradient the cotangent; before: how far, down and to the
    right, the border begins before a tile; turned: whether the weight has channels of `read` last,
    and its taps are taken backwards.
    """

    role: str
    read: Images
    made: Images
    before: tuple[int, int]
    turned: bool
    tile: int

    @classmethod
    def of(cls, role: str, geometry: Geometry, dtype: str, lanes: int, tile: int) -> Work:
        """The work of one of the three ops."""
        g = geometry
        (height, width), (rows, columns), (down, right) = g.size, g.out, g.before
        image = Images(g.batch, height, width, g.channels, dtype, lanes)
        result = Images(g.batch, rows, columns, g.filters, dtype, lanes)
        if role == ADJOINT:
            return cls(role, result, image, (TAPS - 1 - down, TAPS - 1 - right), True, tile)
        return cls(role, image, result, (down, right), False, tile)

    @property
    def dtype(self) -> str:
        """The dtype of all of it."""
        return self.read.dtype

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.read.lanes

    @property
    def line(self) -> int:
        """Elements of a cache line, at least a vector: what arrays lie apart beyond a power of two,
        so that a tile's elements do not meet in the same places of a cache.
        """
        return max(LINE_BYTES // DTYPE_BYTES[self.dtype], self.lanes)

    @property
    def side(self) -> int:
        """Pixels of a tile's side with its border, and points in an axis."""
        return self.tile + TAPS - 1

    @property
    def points(self) -> int:
        """Points in both axes: so many products of matrices."""
        return self.side * self.side

    @property
    def down(self) -> int:
        """Tiles in a column of an image."""
        return pieces_of(self.made.height, self.tile)

    @property
    def across(self) -> int:
        """Tiles in a row of an image."""
        return pieces_of(self.made.width, self.tile)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.made.batch * self.down * self.across

    @property
    def ragged(self) -> bool:
        """Whether tiles reach beyond the images that they cover."""
        return bool(self.made.height % self.tile or self.made.width % self.tile)

    @property
    def image(self) -> str:
        """C text for the image of a `tile`."""
        return quotient("tile", self.down * self.across, self.tiles)

    @property
    def top(self) -> str:
        """C text for the first row of a `tile`."""
        place = quotient("tile", self.across, self.tiles)
        return times(remainder(place, self.down, self.tiles // self.across), self.tile)

    @property
    def left(self) -> str:
        """C text for its first column."""
        return times(remainder("tile", self.across, self.tiles), self.tile)

    def border(self, axis: int) -> str:
        """C text for where the border of a tile begins, from `top` or `left`."""
        name, before = ("top", "left")[axis], self.before[axis]
        return plus(name, str(-before)) if before <= 0 else f"{name} - {before}"
