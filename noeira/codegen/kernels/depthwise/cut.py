"""How convolutions whose every channel has one filter are cut in C: vectors are channels.

Neighbouring places of a line share what they read. Sums for the weight are made for slots of lines,
which do not depend on threads, and then added in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.depthwise.lines import Line
from noeira.codegen.kernels.patches.walks import Walk, walks_of
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage

# The stage that options are written in.
STAGE = "depthwise"
# Neighbouring places that are made together: more would be long code.
MOST_WIDTH = 8


@dataclass(frozen=True, kw_only=True)
class DepthwiseOptions:
    """width: neighbouring places that are made together; lines: of places whose sums for the weight
    are a slot, 0 where no weight is made; split: whether threads share the work.
    """

    width: int = option(stage=STAGE, most=MOST_WIDTH)
    lines: int = option(0, stage=STAGE, least=0)
    split: bool = option(False, stage=STAGE)


@dataclass(frozen=True)
class DepthwiseCut:
    """How much is done at a time (see `DepthwiseOptions`) of one of the three ops.

    image, factor: the operands, by name. rows: of the result, of `channels`; taps: of the weight;
    registers: of the vector unit; headed: whether element-wise ops before it make the image.
    """

    image: str
    factor: str
    walks: tuple[Walk, ...]
    channels: int
    rows: int
    taps: int
    dtype: str
    lanes: int
    registers: int
    options: DepthwiseOptions
    headed: bool = False

    template, algorithm = "depthwise", "channel by channel"

    @property
    def summed(self) -> bool:
        """Whether it is the weight that is made."""
        return self.factor == "d"

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of each walk."""
        return tuple(Line(walk, self.headed) for walk in self.walks)

    @property
    def pixels(self) -> CRows:
        """The image as the elements that a head runs over."""
        walk = self.walks[0]
        return CRows(self.dtype, self.lanes, walk.batch * walk.pixels, self.channels)

    @property
    def grid(self) -> CRows:
        """The result."""
        return CRows(self.dtype, self.lanes, self.rows, self.channels)

    @property
    def slots(self) -> int:
        """The slots of lines."""
        return pieces_of(self.lines[0].count, self.options.lines)

    @property
    def sums(self) -> int:
        """The sums of a slot."""
        return self.taps * self.channels

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The taps of the two first axes, by number, in groups whose sums with those along the last
        axis have room in registers.
        """
        line = self.lines[0]
        together = max(self.registers * 3 // 4 // len(line.axis.taps), 1)
        every = tuple(range(len(line.taps)))
        return tuple(every[i : i + together] for i in range(0, len(every), together))

    @property
    def flops(self) -> int:
        """Operations of all taps in all places."""
        return 2 * self.channels * sum(walk.places * len(walk.taps) for walk in self.walks)

    def stages(self) -> tuple[Stage, ...]:
        """The stages as they stand in a plan."""
        stage = Stage(STAGE, written(self.options, STAGE))
        total = Stage("total", (("split", True),) if self.options.split else ())
        return (stage, total) if self.summed else (stage,)

    def rooms(self) -> tuple[Room, ...]:
        """The sums of slots."""
        return (Room("partial", self.dtype, self.slots * self.sums),) if self.summed else ()


def applies(g: Geometry) -> bool:
    """Whether every channel has one filter of its own."""
    return g.groups == g.channels == g.filters > 1


def depthwise_cut(
    role: str,
    g: Geometry,
    dtype: str,
    isa: ISA,
    options: DepthwiseOptions,
    headed: bool = False,
) -> DepthwiseCut:
    """The cut of one of the three ops with these options."""
    image, factor, rows = {
        "convolution": ("x", "weight", g.batch * g.pixels),
        "transposed_convolution": ("d", "weight", g.batch * math.prod(g.size)),
        "convolution_weight": ("x", "d", g.taps),
    }[role]
    walks, lanes = walks_of(g, adjoint=image == "d"), isa.lanes(dtype)
    return DepthwiseCut(
        image, factor, walks, g.channels, rows, g.taps, dtype, lanes, isa.registers, options, headed
    )
