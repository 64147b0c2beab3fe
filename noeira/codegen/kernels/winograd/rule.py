"""The static rule that cuts Winograd's algorithm: by shape alone, from the sizes of caches."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.winograd.images_cut import (
    STACK_BYTES,
    ImagesCut,
    ImagesOptions,
    read_images,
)
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
# Of fewer tiles for a channel of the result, their transforms are less to share than the weights'.
WEIGHT_TILES = 2
# Elements of a block's transforms at a point, the tiles by the channels.
BLOCK_ELEMENTS = 1024
BLOCK_TILES = 16
# A block of tiles that weights are transformed for, to be forgotten behind it.
OWN_TILES = 128
# Of so few tiles a block has fewer, that several threads have work; but not less than that.
FEW_BLOCKS, FEW_TILES = 8, 8
# Sums of a part of all tiles have so many elements at a point.
PART_SUMS = 64 * 128
# A part has at least so many tiles, as long as there are few parts; it takes so many at a time.
PART_TILES, PARTS, PART_STEPS = 96, 8, 32
# Channels of a band, a multiple of all vectors.
BAND = 64


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
    """The weights first if their transforms are few, also beside those of the tiles, and those of
    some tiles have room: what is first goes from thread to thread by memory.
    """
    channels, results = work.read.padded, work.made.padded
    weight_bytes = work.points * channels * results * DTYPE_BYTES[work.dtype]
    cut = cut_images(work, isa, max(BLOCK_ELEMENTS // channels, BLOCK_TILES), tiles_first=False)
    few = weight_bytes <= WEIGHT_BYTES and results * WEIGHT_TILES < work.tiles
    if few and fits(cut):
        return cut
    return cut_images(work, isa, OWN_TILES, tiles_first=True)


def cut_images(work: Work, isa: ISA, tiles: int, tiles_first: bool) -> ImagesCut:
    """The cut in blocks of at most so many tiles."""
    width = min(WIDE, work.made.vectors)
    panels, rows = pieces_of(work.made.vectors, width), register_rows(isa, width)
    wanted = pieces_of(FEW_BLOCKS, panels if tiles_first else 1)
    most = min(tiles, max(pieces_of(work.tiles, wanted), FEW_TILES))
    blocks = pieces_of(work.tiles, most)
    return ImagesCut(work, ImagesOptions(work.tile, blocks, panels, rows, tiles_first, split=True))


def weight_cut(work: Work, isa: ISA) -> WeightCut:
    """Parts of tiles if their sums are few, and the transforms of some tiles have room."""
    width = min(WIDE, work.made.vectors)
    panels, rows = pieces_of(work.made.vectors, width), register_rows(isa, width)
    bands = pieces_of(work.read.padded, BAND)
    parts = min(PARTS, work.tiles // PART_TILES)
    options = WeightOptions(work.tile, bands, panels, rows, split=True)
    in_parts = WeightCut(work, replace(options, parts=parts, tiles=PART_STEPS))
    few = work.read.padded * work.made.padded <= PART_SUMS
    return in_parts if parts > 1 and few and fits(in_parts) else WeightCut(work, options)


def fits(cut: WinogradCut) -> bool:
    """Whether what a thread keeps has room on its stack."""
    return cut.stack_bytes <= STACK_BYTES
