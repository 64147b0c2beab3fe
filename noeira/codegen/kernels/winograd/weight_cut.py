"""How the gradient of a 3x3 weight is cut in C by Winograd's algorithm.

At each point the transforms of x, [tiles, channels], and of d, [tiles, filters], are multiplied
over tiles. The parts of tiles: a thread takes a part, some tiles at a time, through all channels,
and a second stage adds the sums of parts and transforms them; that is for few channels and many
tiles. Or the tiles first, where the sums are more than the tiles: a stage transforms them, then a
thread takes bands of channels by panels of filters. How many parts there are does not depend on
threads, nor does the order of any sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.cut import check_stages, option, read_cut, written
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.kernels.winograd.images_cut import check_stack
from noeira.codegen.kernels.winograd.products import STEPS, Products
from noeira.codegen.kernels.winograd.texts import Texts
from noeira.codegen.kernels.winograd.work import WEIGHT, Work
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES


@dataclass(frozen=True)
class WeightOptions:
    """A cut as it stands in a plan. tile: results of a tile in an axis; bands: of channels; panels:
    of filters; rows: at most, of a register tile; parts: of tiles, 0 where the tiles are first;
    tiles: at a time, of a part; split: whether threads share the work.
    """

    tile: int = option(least=2, most=4, power=True)
    bands: int = option()
    panels: int = option()
    rows: int = option(most=32)
    parts: int = option(0, least=0)
    tiles: int = option(0, least=0)
    split: bool = option(False)


@dataclass(frozen=True)
class WeightCut(Texts):
    """How much is done at a time (see `WeightOptions`)."""

    work: Work
    options: WeightOptions

    template = "winograd"
    part = "winograd_weight.c.j2"

    @property
    def tiles_first(self) -> bool:
        """Whether a stage transforms all tiles."""
        return not self.options.parts

    @cached_property
    def parts(self) -> Partition:
        """The tiles in parts."""
        return Partition(self.work.tiles, self.options.parts or 1)

    @property
    def tiles(self) -> int:
        """Tiles whose transforms lie together."""
        return self.options.tiles if self.options.parts else self.work.tiles

    @cached_property
    def bands(self) -> Partition:
        """The vectors of a pixel of x in bands."""
        return Partition(self.work.read.vectors, self.options.bands)

    @cached_property
    def panels(self) -> Partition:
        """Those of d in panels."""
        return Partition(self.work.made.vectors, self.options.panels)

    @property
    def band(self) -> int:
        """Elements of a tile in the widest band, at a point."""
        return self.bands.size * self.lanes

    @property
    def items(self) -> int:
        """Bands by panels."""
        return self.bands.count * self.panels.count

    @cached_property
    def products(self) -> Products:
        """The products, with channels for rows."""
        line = self.work.line
        return Products(
            self.work,
            tuple(size * self.lanes for size in self.bands.sizes),
            self.options.rows,
            self.panels,
            steps=STEPS,
            row=1,
            step=self.band,
            chunk=STEPS * self.band,
            a_size=self.tiles * self.band + line,
            b_size=self.tiles * self.panels.size * self.lanes + line,
        )

    @property
    def band_size(self) -> int:
        """Elements of a band at all points."""
        return self.work.points * self.products.a_size

    @property
    def panel_size(self) -> int:
        """Elements of a panel at all points."""
        return self.work.points * self.products.b_size

    @property
    def images_size(self) -> int:
        """Elements of the transforms of x that lie together."""
        return self.bands.count * self.band_size

    @property
    def spread_size(self) -> int:
        """Elements of those of d."""
        return self.panels.count * self.panel_size

    @property
    def sums_size(self) -> int:
        """Elements of the sums of a band and a panel."""
        return self.work.points * self.products.sums_size

    @property
    def part_size(self) -> int:
        """Elements of the sums of a part."""
        return self.items * self.sums_size

    @property
    def result(self) -> CRows:
        """The weight's gradient, of a tap and a channel a row."""
        rows = self.transform("weight").made * self.work.read.channels
        return CRows(self.dtype, self.lanes, rows, self.work.made.channels)

    @property
    def stack_bytes(self) -> int:
        """Bytes that a thread keeps."""
        own = self.sums_size if self.tiles_first else self.images_size + self.spread_size
        return own * DTYPE_BYTES[self.dtype]

    def stages(self) -> tuple[Stage, ...]:
        """The stages as they stand in a plan."""
        split = (("split", True),) if self.options.split else ()
        names = ("tiles", "winograd") if self.tiles_first else ("winograd", "total")
        return Stage(names[0], written(self.options)), Stage(names[1], split)

    def rooms(self) -> tuple[Room, ...]:
        """What the stages share."""
        if not self.tiles_first:
            return (Room("partial", self.dtype, self.parts.count * self.part_size),)
        sizes = (("images", self.images_size), ("spread", self.spread_size))
        return tuple(Room(name, self.dtype, size) for name, size in sizes)


def read_weight(geometry: Geometry, dtype: str, isa: ISA, stages: tuple[Stage, ...]) -> WeightCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options = read_cut(WeightOptions, stages)
    work = Work.of(WEIGHT, geometry, dtype, isa.lanes(dtype), options.tile)
    bounds = {
        "parts": work.tiles,
        "tiles": work.tiles,
        "bands": work.read.vectors,
        "panels": work.made.vectors,
    }
    for name, most in bounds.items():
        if getattr(options, name) > most:
            raise VerifyError(f"{stages[0]}: {name} must be a whole number of at most {most}")
    if bool(options.parts) != bool(options.tiles):
        raise VerifyError(f"{stages[0]}: tiles are those of a part: give both, or neither")
    cut = WeightCut(work, options)
    check_stack(stages[0], cut.stack_bytes)
    check_stages(WeightOptions, stages, cut.stages())
    return cut
