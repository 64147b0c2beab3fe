"""The static rule that cuts Winograd's algorithm: by shape alone, from the sizes of caches."""

from __future__ import annotations

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.winograd.images_cut import ImagesCut, ImagesOptions, read_images
from noeira.codegen.kernels.winograd.weight_cut import WeightCut, WeightOptions, read_weight
from noeira.codegen.kernels.winograd.work import WEIGHT, Work
from noeira.codegen.rows import pieces_of
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

WinogradCut = ImagesCut | WeightCut

# Registers that a tile has for sums, of so many vectors: the rest hold what is read.
WIDE = 2
# Transformed weights of so many bytes stay in the caches between blocks of tiles.
WEIGHT_BYTES = 5 << 19
# Elements of a block's transforms at a point, the tiles by the channels.
BLOCK_ELEMENTS = 1024
BLOCK_TILES = 16
# A block of tiles whose weights are transformed for it alone.
OWN_TILES = 128
# Sums of a part of all tiles have so many elements at a point.
PART_SUMS = 64 * 128
PART_TILES, PARTS = 96, 16


def choose(role: str, geometry: Geometry, dtype: str, isa: ISA, tile: int = 4) -> WinogradCut:
    """The cut for one of the three ops."""
    work = Work.of(role, geometry, dtype, isa.lanes(dtype), tile)
    return weight_cut(work, isa) if role == WEIGHT else images_cut(work, isa)


def read(
    role: str, geometry: Geometry, dtype: str, isa: ISA, stages: tuple[Stage, ...]
) -> WinogradCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    if role == WEIGHT:
        return read_weight(geometry, dtype, isa, stages)
    return read_images(role, geometry, dtype, isa, stages)


def register_rows(isa: ISA, vectors: int) -> int:
    """Rows of a tile of so many vectors whose sums have room in registers, with what is read."""
    return max((isa.registers - vectors - 2) // vectors, 1)


def images_cut(work: Work, isa: ISA) -> ImagesCut:
    """The weights first if their transforms are few."""
    channels, results = work.read.padded, work.made.padded
    weight_bytes = work.points * channels * results * DTYPE_BYTES[work.dtype]
    tiles_first = weight_bytes > WEIGHT_BYTES
    width = min(WIDE, work.made.vectors)
    most = OWN_TILES if tiles_first else max(BLOCK_ELEMENTS // channels, BLOCK_TILES)
    rows = register_rows(isa, width)
    options = ImagesOptions(
        work.tile,
        pieces_of(work.tiles, most),
        pieces_of(work.made.vectors, width),
        rows,
        tiles_first,
        split=True,
    )
    return ImagesCut(work, options)


def weight_cut(work: Work, isa: ISA) -> WeightCut:
    """Parts of tiles if their sums are few."""
    width = min(WIDE, work.made.vectors)
    bands = pieces_of(work.read.padded, 64)
    panels, rows = pieces_of(work.made.vectors, width), register_rows(isa, width)
    parts = tiles = 0
    if work.read.padded * work.made.padded <= PART_SUMS and work.tiles >= 4 * PART_TILES:
        parts = min(PARTS, pieces_of(work.tiles, PART_TILES))
        tiles = 32
    return WeightCut(work, WeightOptions(work.tile, bands, panels, rows, parts, tiles, split=True))
