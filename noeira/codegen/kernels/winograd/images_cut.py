"""How Winograd's convolution and its adjoint in x are cut in C.

The weights first: a stage transforms them for all; then a thread takes a block of tiles at a time,
whose transforms have room on its stack, through all panels of columns. That is for few channels and
many tiles. Or the tiles first: a stage transforms them, and a thread transforms a panel of weights
a few channels at a time for a block of tiles, so that weights, which are more there than images,
are read once and their transforms never leave the cache. An element's sum is made in one order
whatever thread makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import check_stages, option, read_cut, written
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.winograd.products import STEPS, Chunks, Products
from noeira.codegen.kernels.winograd.texts import Texts
from noeira.codegen.kernels.winograd.work import Work
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# What a thread keeps of tiles, weights and sums: they have to have room on its stack.
STACK_BYTES = 1 << 20


@dataclass(frozen=True)
class ImagesOptions:
    """A cut as it stands in a plan. tile: results of a tile in an axis; blocks: of tiles; panels:
    of columns; rows: at most, of a register tile; tiles_first: whether tiles are transformed for
    all, and not the weights; split: whether threads share the work.
    """

    tile: int = option(least=2, most=4, power=True)
    blocks: int = option()
    panels: int = option()
    rows: int = option(most=32)
    tiles_first: bool = option(False)
    split: bool = option(False)


@dataclass(frozen=True)
class ImagesCut(Texts):
    """How much is done at a time (see `ImagesOptions`)."""

    work: Work
    options: ImagesOptions

    template = "winograd"
    part = "winograd_images.c.j2"

    @property
    def tiles_first(self) -> bool:
        """Whether the tiles are transformed for all, and not the weights."""
        return self.options.tiles_first

    @cached_property
    def blocks(self) -> Partition:
        """The tiles in blocks."""
        return Partition(self.work.tiles, self.options.blocks)

    @cached_property
    def panels(self) -> Partition:
        """The vectors of a result's pixel in panels."""
        return Partition(self.work.made.vectors, self.options.panels)

    @property
    def depth(self) -> int:
        """Steps of the products: channels."""
        return self.work.read.channels

    @cached_property
    def bands(self) -> Chunks:
        """The vectors of a pixel that is read in bands: the channels that are summed at a time."""
        vectors = self.work.read.vectors
        return Chunks(vectors, min(STEPS // self.lanes, vectors))

    @property
    def deepest(self) -> int:
        """Channels of a band."""
        return self.bands.size * self.lanes

    @property
    def weight_items(self) -> int:
        """Pieces of work of the stage that transforms weights."""
        return self.panels.count * self.bands.count

    @property
    def items(self) -> int:
        """Pieces of work of the stage that multiplies, where the tiles are first."""
        return self.panels.count * self.blocks.count

    @property
    def kept_tiles(self) -> int:
        """Tiles whose transforms lie together."""
        return self.work.tiles if self.tiles_first else self.blocks.size

    @cached_property
    def products(self) -> Products:
        """The products, with tiles for rows."""
        steps = self.deepest if self.tiles_first else self.depth
        lanes, line = self.work.lanes, self.work.line
        a_size = self.kept_tiles * self.deepest + line
        return Products(
            self.work,
            self.blocks.sizes,
            self.options.rows,
            self.panels,
            steps=self.deepest,
            row=self.deepest,
            step=1,
            chunk=self.work.points * a_size,
            a_size=a_size,
            b_size=steps * self.panels.size * lanes + line,
        )

    @property
    def tiles_size(self) -> int:
        """Elements of the transforms of tiles that lie together."""
        return self.bands.count * self.products.chunk

    @property
    def panel_size(self) -> int:
        """Elements of the transformed weights of a panel, at as many steps as lie together."""
        return self.work.points * self.products.b_size

    @property
    def sums_size(self) -> int:
        """Elements of the sums of a block and a panel."""
        return self.work.points * self.products.sums_size

    @property
    def stack_bytes(self) -> int:
        """Bytes that a thread keeps."""
        own = self.panel_size if self.tiles_first else self.tiles_size
        return (own + self.sums_size) * DTYPE_BYTES[self.work.dtype]

    def stages(self) -> tuple[Stage, ...]:
        """The stages as they stand in a plan."""
        split = (("split", True),) if self.options.split else ()
        first = "tiles" if self.tiles_first else "weights"
        return Stage(first, written(self.options)), Stage("winograd", split)

    def rooms(self) -> tuple[Room, ...]:
        """What the stages share."""
        if self.tiles_first:
            return (Room("transforms", self.work.dtype, self.tiles_size),)
        return (Room("transforms", self.work.dtype, self.panels.count * self.panel_size),)


def read_images(
    role: str, geometry: Geometry, dtype: str, isa: ISA, stages: tuple[Stage, ...]
) -> ImagesCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options = read_cut(ImagesOptions, stages)
    work = Work.of(role, geometry, dtype, isa.lanes(dtype), options.tile)
    for name, most in (("blocks", work.tiles), ("panels", work.made.vectors)):
        if getattr(options, name) > most:
            raise VerifyError(f"{stages[0]}: {name} must be a whole number from 1 to {most}")
    cut = ImagesCut(work, options)
    check_stack(stages[0], cut.stack_bytes)
    check_stages(ImagesOptions, stages, cut.stages())
    return cut


def check_stack(stage: Stage, size: int) -> None:
    """Raises VerifyError for a cut that has no room on the stack of a thread."""
    if size > STACK_BYTES:
        raise VerifyError(
            f"{stage}: a thread keeps {size:,} bytes of tiles, weights and sums, at most "
            f"{STACK_BYTES:,} have room on a stack: more blocks or panels"
        )
