"""Convolutions in C whose every channel has one filter of its own: vectors are channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.cut import option, written
from noeira.codegen.kernels.convolution.c_walks import Axis, Walk, walks_of
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# Neighbouring places that are made together share what they read: more would be long code.
MOST_WIDTH = 8
# What lines of places of a slot read stays in the L2 cache.
SLOT_BYTES = 1 << 18
# Work is shared by threads from so many operations on.
SHARED_FLOPS = 32_768


@dataclass(frozen=True, kw_only=True)
class DepthwiseCut:
    """width: neighbouring places that are made together; lines: of places whose sums for a weight
    are a slot of their own, which a stage `total` adds; 0 where there is no such sum. split:
    whether threads share the work.
    """

    width: int = option(stage="depthwise", most=MOST_WIDTH)
    lines: int = option(0, stage="depthwise", least=0)
    split: bool = option(False, stage="depthwise")
    by_channels: ClassVar[bool] = True


@dataclass(frozen=True)
class Taps:
    """Taps along the two first axes: how far from the pixel that a tap of offset 0 meets, in pixels
    along each axis and in elements, and where their taps along the last begin in the weight.
    """

    z: int
    y: int
    distance: int
    weight: int


@dataclass(frozen=True)
class Column:
    """A pixel that some neighbouring places meet: where it is, and the places with their taps."""

    distance: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Line:
    """The places of a walk along its last axis, of `channels`."""

    walk: Walk

    @property
    def axis(self) -> Axis:
        """The last axis."""
        return self.walk.axes[2]

    @property
    def count(self) -> int:
        """Lines in all."""
        return self.walk.places // self.axis.count

    @cached_property
    def taps(self) -> tuple[Taps, ...]:
        """The taps along the other axes; none if there are none along one."""
        walk, (z, y, x) = self.walk, self.walk.axes
        _, rows, columns = walk.kernel
        pairs = product(zip(z.offsets, z.taps, strict=True), zip(y.offsets, y.taps, strict=True))
        if not x.taps:
            return ()
        return tuple(
            Taps(
                *(dz, dy, dz * walk.image_plane + dy * walk.image_row),
                (tz * rows + ty) * columns * walk.channels,
            )
            for (dz, tz), (dy, ty) in pairs
        )

    @property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """What is looked up of these taps."""
        found = {
            "distances": tuple(taps.distance for taps in self.taps),
            "weights": tuple(taps.weight for taps in self.taps),
        }
        for name, axis in zip("zy", self.walk.axes[:2], strict=True):
            if axis.checked:
                found[f"{name}_of"] = tuple(getattr(taps, name) for taps in self.taps)
        return found

    def tests(self, taps: str) -> str:
        """C text of the condition that taps meet lines that the image has; empty if all do."""
        found = list[str]()
        for name, axis in zip("zy", self.walk.axes[:2], strict=True):
            if axis.checked:
                met = plus(self.at(name, axis.stride), f"{name}_of[{taps}]")
                found.append(f"(unsigned long)({met}) < {axis.size}")
        return " && ".join(found)

    def at(self, name: str, stride: int = 1) -> str:
        """C text for the number of a `line` along an axis, times a number."""
        z, y, _ = self.walk.axes
        inner = {"y": 1, "z": y.count, "image": z.count * y.count}[name]
        extent = {"y": y.count, "z": z.count, "image": self.walk.batch}[name]
        text = remainder(quotient("line", inner, self.count), extent, self.count // inner)
        return times(text, stride)

    @property
    def pixel(self) -> str:
        """C text for where the image has the pixel that a tap of offset 0 meets at the first place
        of a `line`.
        """
        z, y, _ = self.walk.axes
        return plus(
            self.at("image", self.walk.image_size),
            self.at("z", z.stride * self.walk.image_plane),
            self.at("y", y.stride * self.walk.image_row),
        )

    @property
    def result_row(self) -> str:
        """C text for the number of the result's pixel at the first place of a `line`."""
        z, y, x = self.walk.axes
        planes = plus(times(self.at("image"), z.out), self.at("z", z.step), str(z.start))
        lines = plus(times(f"({planes})", y.out), self.at("y", y.step), str(y.start))
        return plus(times(f"({lines})", x.out), str(x.start))

    @property
    def inside(self) -> tuple[int, int]:
        """The first of the places whose taps all meet the image, and the one behind the last."""
        axis = self.axis
        if not axis.offsets:
            return 0, axis.count
        first = max(pieces_of(-axis.offsets[0], axis.stride), 0)
        last = (axis.size - 1 - axis.offsets[-1]) // axis.stride + 1
        last = min(max(last, 0), axis.count)
        return (first, last) if first < last else (axis.count, axis.count)

    def inside_end(self, width: int) -> int:
        """The place behind the last of those inside that are made so many together."""
        first, last = self.inside
        return last - (last - first) % width

    def columns(self, width: int) -> tuple[Column, ...]:
        """The pixels that so many neighbouring places meet, in order."""
        axis, met = self.axis, dict[int, list[tuple[int, int]]]()
        for place, (number, offset) in product(range(width), enumerate(axis.offsets)):
            met.setdefault(place * axis.stride + offset, []).append((place, number))
        return tuple(
            Column(column * self.walk.channels, tuple(met[column])) for column in sorted(met)
        )

    @property
    def size(self) -> int:
        """Elements of a line."""
        return self.axis.count * self.walk.channels

    @property
    def step(self) -> int:
        """Elements of the image between places."""
        return self.axis.stride * self.walk.channels

    def column_of(self, number: int) -> str:
        """C text for the column that a tap of the last axis meets at place `x`."""
        return plus(times("x", self.axis.stride), f"({self.axis.offsets[number]})")

    def distance_of(self, number: int) -> int:
        """Elements of the image to it, from that of a tap of offset 0."""
        return self.axis.offsets[number] * self.walk.channels

    def weight_of(self, number: int) -> int:
        """Where a tap of the last axis lies in the weight, from the first."""
        return self.axis.taps[number] * self.walk.channels


@dataclass(frozen=True)
class Depthwise:
    """What a template sees: a convolution, or an adjoint of one, channel by channel.

    rows: of the result, of `channels`; taps: of the weight.
    """

    walks: tuple[Walk, ...]
    channels: int
    rows: int
    taps: int
    dtype: str
    lanes: int
    registers: int

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of each walk."""
        return tuple(map(Line, self.walks))

    @property
    def grid(self) -> CRows:
        """The result."""
        return CRows(self.dtype, self.lanes, self.rows, self.channels)

    def slots(self, cut: DepthwiseCut) -> int:
        """The slots of lines."""
        return pieces_of(self.lines[0].count, cut.lines)

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


def is_depthwise(g: Geometry) -> bool:
    """Whether every channel has one filter of its own."""
    return g.groups == g.channels == g.filters > 1


def depthwise_of(g: Geometry, stem: str, dtype: str, isa: ISA) -> Depthwise:
    """What an op of these three is, by the stem of its template."""
    adjoint = stem == "transposed_convolution"
    rows = {
        "convolution": g.batch * g.pixels,
        "transposed_convolution": g.batch * math.prod(g.size),
        "convolution_weight": g.taps,
    }
    walks, lanes = walks_of(g, adjoint=adjoint), isa.lanes(dtype)
    return Depthwise(walks, g.channels, rows[stem], g.taps, dtype, lanes, isa.registers)


def choose_depthwise(view: Depthwise, summed: bool) -> DepthwiseCut:
    """The cut by shape alone. summed: whether it is the weight that is made."""
    line = max(view.lines, key=lambda line: len(line.walk.taps))
    first, last = line.inside
    inside = max(last - first, 1)

    def cost(width: int) -> tuple[int, int]:
        return inside // width * (width + 1) + inside % width * 3, -width

    most = min(MOST_WIDTH, inside, view.registers // 2 - 2)
    width = min(range(1, most + 1), key=cost)
    split = view.flops >= SHARED_FLOPS
    if not summed:
        return DepthwiseCut(width=width, split=split)
    places = line.axis.count + line.axis.size * line.axis.stride
    line_bytes = places * view.channels * DTYPE_BYTES[view.dtype]
    lines = min(max(SLOT_BYTES // line_bytes, 1), line.count)
    return DepthwiseCut(width=width, lines=lines, split=split)


def depthwise_stages(cut: DepthwiseCut) -> tuple[Stage, ...]:
    """The stages of a cut."""
    stage = Stage("depthwise", written(cut, "depthwise"))
    if not cut.lines:
        return (stage,)
    return stage, Stage("total", (("split", True),) if cut.split else ())


def check_depthwise(view: Depthwise, cut: DepthwiseCut, summed: bool) -> None:
    """Raises VerifyError for a cut that the template cannot make."""
    if summed and not 0 < cut.lines <= view.lines[0].count:
        most = view.lines[0].count
        raise VerifyError(f"depthwise: lines must be a whole number from 1 to {most}")
    if not summed and cut.lines:
        raise VerifyError("depthwise: lines must be 0 here: only sums for a weight have slots")


def depthwise_scratch(view: Depthwise, cut: DepthwiseCut) -> tuple[Room, ...]:
    """The sums of slots."""
    return (Room("partial", view.dtype, view.slots(cut) * view.sums),) if cut.lines else ()
