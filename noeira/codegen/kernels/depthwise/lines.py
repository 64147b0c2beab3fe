"""The lines of places that convolutions channel by channel go along, and what a line reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.kernels.patches.walks import Axis, Walk


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
    """The places of a walk along its last axis, of `channels`. headed: whether it is reckoned in
    pixels of the image, not in elements, as a head that makes these needs it.
    """

    walk: Walk
    headed: bool = False

    @property
    def met(self) -> Walk:
        """How the image is walked through, in what it is reckoned in."""
        return replace(self.walk, channels=1) if self.headed else self.walk

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
        walk, met, (z, y, x) = self.walk, self.met, self.walk.axes
        _, rows, columns = walk.kernel
        pairs = product(zip(z.offsets, z.taps, strict=True), zip(y.offsets, y.taps, strict=True))
        if not x.taps:
            return ()
        return tuple(
            Taps(
                *(dz, dy, dz * met.image_plane + dy * met.image_row),
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
            self.at("image", self.met.image_size),
            self.at("z", z.stride * self.met.image_plane),
            self.at("y", y.stride * self.met.image_row),
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
        return self.axis.interior

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
            Column(column * self.met.channels, tuple(met[column])) for column in sorted(met)
        )

    @property
    def size(self) -> int:
        """Elements of a line."""
        return self.axis.count * self.walk.channels

    @property
    def step(self) -> int:
        """Elements of the image between places."""
        return self.axis.stride * self.met.channels

    def column_of(self, number: int) -> str:
        """C text for the column that a tap of the last axis meets at place `x`."""
        return plus(times("x", self.axis.stride), f"({self.axis.offsets[number]})")

    def distance_of(self, number: int) -> int:
        """Elements of the image to it, from that of a tap of offset 0."""
        return self.axis.offsets[number] * self.met.channels

    def weight_of(self, number: int) -> int:
        """Where a tap of the last axis lies in the weight, from the first."""
        return self.axis.taps[number] * self.walk.channels
