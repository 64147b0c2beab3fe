"""What templates see of windows over images: bounds along each axis as C text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from noeira.codegen.anchor import anchor_of, rows_dtype
from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.rows import Rows
from noeira.ir.body import Body
from noeira.ir.ops.pooling import Windows as WindowOp
from noeira.ir.types import Types
from noeira.ir.windows import WindowAxis

# What axes are called, by how many there are.
LETTERS = {1: "w", 2: "hw", 3: "dhw"}


@dataclass(frozen=True)
class Reach:
    """Along one axis, the cells of a window; or, turned, the windows of a cell. at, each: the names
    of the one whose reach it is, and of those in it.
    """

    axis: WindowAxis
    at: str
    each: str
    turned: bool = False

    @property
    def own(self) -> int:
        """How many there are whose reach it can be."""
        return self.axis.size if self.turned else self.axis.out

    @property
    def others(self) -> int:
        """How many there are that may lie in it."""
        return self.axis.out if self.turned else self.axis.size

    @property
    def step(self) -> int:
        """From one in it to the next."""
        return 1 if self.turned else self.axis.dilation

    @property
    def first(self) -> str:
        """C text for the first in reach."""
        return self.first_of(self.at)

    @property
    def past(self) -> str:
        """C text for what is behind the last in reach."""
        return self.past_of(self.at)

    def first_of(self, at: str) -> str:
        """C text for the first in the reach of another, which is C text too."""
        axis = self.axis
        if axis.even:
            return quotient(times(at, self.others), self.own, self.own * self.others)
        if self.turned:
            return self.first_window(at)
        begin = times(at, axis.stride)
        if not axis.before:
            return begin
        edge = "0"
        if axis.dilation > 1:
            edge = f"({begin} + {-axis.before % axis.dilation}) % {axis.dilation}"
        return f"{begin} > {axis.before} ? {begin} - {axis.before} : {edge}"

    def first_window(self, at: str) -> str:
        """The first window that reaches so far."""
        axis = self.axis
        ahead = axis.before + axis.stride - axis.span
        if ahead >= 0:
            return over(plus(at, str(ahead)), axis.stride)
        return f"{at} > {-ahead} ? {over(f'{at} - {-ahead}', axis.stride)} : 0"

    def past_of(self, at: str) -> str:
        """C text for what is behind the last in the reach of another."""
        axis = self.axis
        if axis.even:
            rounding = self.others + self.own - 1
            return f"({times(at, self.others)} + {rounding}) / {self.own}"
        if self.turned:
            past = plus(over(plus(at, str(axis.before)), axis.stride), "1")
            most = (axis.size - 1 + axis.before) // axis.stride + 1
        else:
            past = plus(times(at, axis.stride), str(axis.span - axis.before))
            most = axis.begin(axis.out - 1) + axis.span
        return past if most <= self.others else f"{past} < {self.others} ? {past} : {self.others}"

    @property
    def count(self) -> str:
        """C text for how many cells count of the window."""
        axis, window = self.axis, self.each if self.turned else self.at
        if axis.same_count:
            return str(axis.same_count)
        if axis.even:
            reach = Reach(axis, window, "")
            return f"({reach.past} - {reach.first})"
        # From the first cell of padding on.
        begin, end = times(window, axis.stride), axis.before + axis.size + axis.counted
        past = plus(begin, str(axis.kernel))
        if axis.begin(axis.out - 1) + axis.kernel > axis.size + axis.counted:
            past = f"({past} < {end} ? {past} : {end})"
        if (least := axis.before - axis.counted) > 0:
            begin = f"({begin} > {least} ? {begin} : {least})"
        return f"({past} - {begin})"


def over(text: str, divisor: int) -> str:
    """C text for a quotient; text may be a sum."""
    if divisor == 1:
        return text
    return f"({text}) / {divisor}" if " " in text else f"{text} / {divisor}"


def numbered(names: Sequence[str], lengths: Sequence[int]) -> str:
    """C text for the number of a place in row-major order, from its coordinates."""
    text = names[0]
    for name, length in zip(names[1:], lengths[1:], strict=True):
        text = f"({times(text, length)} + {name})"
    return text


@dataclass(frozen=True)
class Windows(Rows):
    """A row for each pixel of a result, of its channels, made of what is in its reach.

    scale: the factor of sums; mean: whether they are divided.
    """

    reaches: tuple[Reach, ...] = ()
    scale: float = 1.0
    mean: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of an image of the result."""
        return math.prod(reach.own for reach in self.reaches)

    @property
    def images(self) -> int:
        """How many images there are."""
        return self.rows // self.pixels

    @property
    def image(self) -> str:
        """C text for the number of the image of a row."""
        return quotient("row", self.pixels, self.rows)

    @property
    def coordinates(self) -> tuple[tuple[str, str], ...]:
        """The name and the C text of each coordinate of the pixel of a row."""
        found, inside = list[tuple[str, str]](), 1
        for reach in reversed(self.reaches):
            place = quotient("row", inside, self.rows)
            found.append((reach.at, remainder(place, reach.own, self.rows // inside)))
            inside *= reach.own
        return tuple(reversed(found))

    @property
    def pixel(self) -> str:
        """C text for the number of a pixel in its image, from its coordinates."""
        return numbered([r.at for r in self.reaches], [r.own for r in self.reaches])

    @property
    def one(self) -> str:
        """C text for the number in its image of one of what is in reach."""
        return numbered([r.each for r in self.reaches], [r.others for r in self.reaches])

    @property
    def first(self) -> str:
        """C text for that of the first in reach."""
        names = [f"first_{r.each}" for r in self.reaches]
        return numbered(names, [r.others for r in self.reaches])

    @property
    def image_size(self) -> int:
        """Elements of an image of what is in reach."""
        return math.prod(reach.others for reach in self.reaches) * self.columns

    @property
    def counts(self) -> tuple[str, ...]:
        """C text for how many cells count of a window, along each axis; none if that is the same
        for all windows.
        """
        if not self.mean or all(reach.axis.same_count for reach in self.reaches):
            return ()
        return tuple(reach.count for reach in self.reaches)

    @property
    def turned(self) -> bool:
        """Whether the result has a pixel for each cell."""
        return self.reaches[0].turned

    @property
    def factor(self) -> float:
        """What all sums are multiplied by."""
        if not self.mean or self.counts:
            return self.scale
        return self.scale / math.prod(reach.axis.same_count for reach in self.reaches)


def reaches_of(body: Body, turned: bool = False) -> tuple[Reach, ...]:
    """Along each axis, the cells of the windows of a node, or the windows of its cells."""
    node = anchor_of(body)
    axes = cast(WindowOp, node.op).axes(node.attrs, *cast(Types, node.types))
    letters = LETTERS[len(axes)]
    if turned:
        return tuple(
            Reach(axis, f"at_{x}", f"over_{x}", True) for axis, x in zip(axes, letters, strict=True)
        )
    return tuple(Reach(axis, f"at_{x}", x) for axis, x in zip(axes, letters, strict=True))


def inner_of(reaches: Sequence[Reach]) -> tuple[Reach, ...]:
    """The cells of windows that are in reach of a cell."""
    return tuple(Reach(r.axis, r.each, r.each.removeprefix("over_")) for r in reaches)


def grid_of(body: Body) -> tuple[str, int, int]:
    """The dtype that pixels are computed in, how many there are of the result, and channels."""
    made = anchor_of(body).outputs[0].type
    return rows_dtype(body), made.size // made.shape[-1], made.shape[-1]
