"""The matrix of patches: what the taps of a filter meet of an image, a row for each place.

A convolution is a product of this matrix; it never lies in memory as a whole, a block of it is
copied when tiles are about to use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

from noeira.codegen.ctext import plus
from noeira.codegen.kernels.patches.walks import Walk

# Up to so many channels, neighbouring taps are one run: longer ones gain nothing.
MERGED_CHANNELS = 16


@dataclass(frozen=True)
class Run:
    """Neighbouring elements of an image that a patch has: how far they begin from the pixel that a
    tap of offset 0 meets, in pixels along each axis, and in elements.
    """

    z: int
    y: int
    x: int
    distance: int


@dataclass(frozen=True)
class Patches:
    """The rows of a walk: for each tap the `own` channels of a group."""

    walk: Walk
    own: int

    @property
    def merged(self) -> bool:
        """Whether taps along the last axis are one run."""
        axis = self.walk.axes[2]
        alone = self.own == self.walk.channels
        several = len(axis.offsets) > 1 and axis.consecutive
        return alone and several and self.own <= MERGED_CHANNELS

    @property
    def span(self) -> int:
        """The pixels of a run."""
        return len(self.walk.axes[2].offsets) if self.merged else 1

    @property
    def length(self) -> int:
        """The elements of a run."""
        return self.span * self.own

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs of a row, in order."""
        walk = self.walk
        planes, rows, columns = (axis.offsets for axis in walk.axes)
        return tuple(
            Run(z, y, x, z * walk.image_plane + y * walk.image_row + x * walk.channels)
            for z, y, x in product(planes, rows, columns[:1] if self.merged else columns)
        )

    @property
    def last_of_run(self) -> int:
        """The number of the last element of a run."""
        return self.length - 1

    @property
    def distances(self) -> tuple[int, ...]:
        """How far runs begin from the pixel that a tap of offset 0 meets."""
        return tuple(run.distance for run in self.runs)

    @property
    def pixels(self) -> tuple[int, ...]:
        """The same in pixels."""
        return tuple(distance // self.walk.channels for distance in self.distances)

    @property
    def steps(self) -> int:
        """The columns of the matrix."""
        return len(self.walk.taps) * self.own

    @property
    def tests(self) -> str:
        """C text of the condition that a run lies in rows that the image has; empty if all do."""
        pairs = zip("zy", self.walk.axes[:2], strict=True)
        checked = ((name, axis) for name, axis in pairs if axis.checked)
        return " && ".join(
            f"(unsigned long)({self.begins(name, axis.stride)}) < {axis.size}"
            for name, axis in checked
        )

    @property
    def pixel_tests(self) -> str:
        """C text of the condition that the image has the pixel of a `number` in a run; empty if it
        has all.
        """
        number = "number" if self.span > 1 else "0"
        column = f"(unsigned long)({plus(self.column, number)}) < {self.image_columns}"
        return " && ".join(filter(None, (self.tests, column if self.column else "")))

    def begins(self, name: str, stride: int) -> str:
        """C text for the number along an axis of the pixel that a `run` begins with."""
        return plus(self.walk.at(name, stride), f"{name}_of[run]")

    @property
    def column(self) -> str:
        """C text for the column that a run begins in; empty if all runs lie in columns that the
        image has.
        """
        axis = self.walk.axes[2]
        return self.begins("x", axis.stride) if axis.checked else ""

    @property
    def interior(self) -> str:
        """C text of the condition that a place's whole patch lies in the image; empty if those of
        all places do.
        """
        found = list[str]()
        for name, axis in zip("zyx", self.walk.axes, strict=True):
            first, end = axis.interior
            at = self.walk.at(name)
            if axis.checked and at == "0":
                return "0"
            if axis.checked:
                found.append(f"{at} >= {first} && {at} < {end}")
        return " && ".join(found)

    @property
    def last_column(self) -> int:
        """The last column that a whole run can begin in."""
        return self.walk.axes[2].size - self.span

    @property
    def image_columns(self) -> int:
        """The columns of the image."""
        return self.walk.axes[2].size

    @property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """What is looked up for a run, by axes where it may miss the image."""
        axes = zip("zyx", self.walk.axes, strict=True)
        return {
            f"{name}_of": tuple(getattr(run, name) for run in self.runs)
            for name, axis in axes
            if axis.checked
        }
