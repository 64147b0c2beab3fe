"""How places of a convolution's result read an image: the walks of its three ops along each axis.

A *walk* is a piece of the result whose elements all read the image by the same taps: all of the
result of a convolution; of its adjoint in the image, where there is a stride, the places of one
remainder by it, which only some taps meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.ir.geometry import Geometry

# Axes that all images are given, by axes of one element in front.
AXES = 3


@dataclass(frozen=True)
class Axis:
    """Along one axis, place number i of `count` lies at start + i * step of the `out` places of the
    result, and tap t meets the image, of `size` pixels, at i * stride + offsets[t]; taps: what the
    weight calls them, in an order in which offsets ascend.
    """

    count: int
    start: int
    step: int
    out: int
    stride: int
    size: int
    taps: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, int]:
        """The first pixel that is met, and the last."""
        last = (self.count - 1) * self.stride
        return min(self.offsets), max(self.offsets) + last

    @property
    def checked(self) -> bool:
        """Whether taps may miss the image."""
        if not self.offsets:
            return False
        first, last = self.reach
        return first < 0 or last >= self.size

    @property
    def interior(self) -> tuple[int, int]:
        """The first place all of whose taps meet the image, and the one behind the last; the same
        if there is none.
        """
        if not self.offsets:
            return 0, self.count
        first = max(-(self.offsets[0] // self.stride), 0)
        end = min((self.size - 1 - self.offsets[-1]) // self.stride + 1, self.count)
        return (first, end) if first < end else (self.count, self.count)

    @property
    def consecutive(self) -> bool:
        """Whether taps meet neighbouring pixels."""
        return all(offset == self.offsets[0] + number for number, offset in enumerate(self.offsets))


def forward(g: Geometry, axis: int) -> tuple[Axis, ...]:
    """How y reads x along an axis."""
    taps = tuple(range(g.kernel[axis]))
    offsets = tuple(tap * g.dilation[axis] - g.before[axis] for tap in taps)
    return (Axis(g.out[axis], 0, 1, g.out[axis], g.stride[axis], g.size[axis], taps, offsets),)


def backward(g: Geometry, axis: int) -> tuple[Axis, ...]:
    """How the cotangent of x reads that of y along an axis: for each remainder by the stride."""
    stride, size, found = g.stride[axis], g.size[axis], list[Axis]()
    for start in range(min(stride, size)):
        distances = {
            tap: start + g.before[axis] - tap * g.dilation[axis] for tap in range(g.kernel[axis])
        }
        met = sorted((d // stride, tap) for tap, d in distances.items() if d % stride == 0)
        offsets, taps = tuple(offset for offset, _ in met), tuple(tap for _, tap in met)
        count = -(-(size - start) // stride)
        found.append(Axis(count, start, stride, size, 1, g.out[axis], taps, offsets))
    return tuple(found)


def with_all_axes(g: Geometry) -> Geometry:
    """The same with AXES axes, those in front of one element."""
    missing = AXES - len(g.size)

    def filled(given: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (value,) * missing + given

    return replace(
        g,
        size=filled(g.size, 1),
        out=filled(g.out, 1),
        kernel=filled(g.kernel, 1),
        stride=filled(g.stride, 1),
        before=filled(g.before, 0),
        after=filled(g.after, 0),
        dilation=filled(g.dilation, 1),
    )


@dataclass(frozen=True)
class Walk:
    """How the places of a walk read an image of `channels`, those of all groups.

    kernel: taps of the weight along each axis; number: of the walk among those of its result.
    """

    batch: int
    axes: tuple[Axis, ...]
    kernel: tuple[int, ...]
    channels: int
    number: int = 0

    @property
    def places(self) -> int:
        """Its places in all images."""
        return self.batch * math.prod(axis.count for axis in self.axes)

    @cached_property
    def taps(self) -> tuple[int, ...]:
        """The taps that it meets, as the weight numbers them."""
        _, rows, columns = self.kernel
        every = product(*(axis.taps for axis in self.axes))
        return tuple((z * rows + y) * columns + x for z, y, x in every)

    @property
    def whole(self) -> bool:
        """Whether it is all of the result, in order."""
        return all(axis.step == 1 for axis in self.axes)

    @property
    def plain(self) -> bool:
        """Whether it meets all pixels in order, each with one tap."""
        return self.whole and all(
            axis.offsets == (0,) and axis.stride == 1 and axis.count == axis.size
            for axis in self.axes
        )

    @property
    def image_row(self) -> int:
        """Elements of a row of the image."""
        return self.axes[2].size * self.channels

    @property
    def image_plane(self) -> int:
        """Elements of a plane of the image."""
        return self.axes[1].size * self.image_row

    @property
    def image_size(self) -> int:
        """Elements of an image."""
        return self.axes[0].size * self.image_plane

    @property
    def pixels(self) -> int:
        """Pixels of an image."""
        return math.prod(axis.size for axis in self.axes)

    def counted(self, place: str, axis: int) -> str:
        """C text for the number along an axis of a place, a C variable."""
        inner = math.prod(one.count for one in self.axes[axis + 1 :])
        count = self.axes[axis].count
        whole = count * inner * (self.batch if axis == 0 else self.places)
        return remainder(quotient(place, inner, whole), count, whole // inner)

    def image_of(self, place: str) -> str:
        """C text for the image of a place."""
        return quotient(place, self.places // self.batch, self.places)

    @property
    def counters(self) -> tuple[tuple[str, str], ...]:
        """The C variables that say where a place is, the last axis first, and what each is for the
        `first` of some places; none for axes of one place.
        """
        axes = zip("zyx", range(AXES), strict=True)
        along = [
            (name, self.counted("first", axis)) for name, axis in axes if self.axes[axis].count > 1
        ]
        images = [("image", self.image_of("first"))] if self.batch > 1 else []
        return (*along[::-1], *images)

    @property
    def next_place(self) -> str:
        """C text of a statement that moves them to the next place."""
        counts = dict(zip("zyx", (axis.count for axis in self.axes), strict=True))
        text = ""
        for name, _ in reversed(self.counters):
            if name == "image" or not text:
                text = f"{name}++;"
            else:
                text = f"if (++{name} == {counts[name]}) {{\n{name} = 0;\n{text}\n}}"
        return text

    def at(self, name: str, stride: int = 1) -> str:
        """C text for a counter, times a number."""
        known = dict(self.counters)
        return times(name, stride) if name in known else "0"

    @property
    def pixel(self) -> str:
        """C text for where the image has the pixel that a tap of offset 0 meets."""
        return self.met(self.channels)

    @property
    def pixel_number(self) -> str:
        """C text for the number of that pixel among all."""
        return self.met(1)

    def met(self, elements: int) -> str:
        """C text for where it is among pixels of so many elements."""
        z, y, x = self.axes
        row = x.size * elements
        return plus(
            self.at("image", z.size * y.size * row),
            self.at("z", z.stride * y.size * row),
            self.at("y", y.stride * row),
            self.at("x", x.stride * elements),
        )

    @property
    def result_row(self) -> str:
        """C text for the number of the result's pixel."""
        text = self.at("image")
        for name, axis in zip("zyx", self.axes, strict=True):
            outer = times(f"({text})" if " " in text else text, axis.out)
            text = plus(outer, self.at(name, axis.step), str(axis.start))
        return text


def walks_of(g: Geometry, adjoint: bool) -> tuple[Walk, ...]:
    """The walks of y over x, or, of the adjoint, of the cotangent of x over that of y."""
    g = with_all_axes(g)
    along = [(backward if adjoint else forward)(g, axis) for axis in range(AXES)]
    channels = g.filters if adjoint else g.channels
    every = enumerate(product(*along))
    return tuple(Walk(g.batch, axes, g.kernel, channels, number) for number, axes in every)
