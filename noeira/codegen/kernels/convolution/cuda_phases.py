"""The phases of a transposed convolution in CUDA: along an axis with a stride, pixels that the same
taps reach.

Pixel phase + stride·i is met by tap t at place (phase + before + stride·i - dilation·t) / stride,
if that is whole. For the taps of a phase, first + step·j, it is i + base - reach·j: so each phase
is a convolution of stride 1 with taps of its own, and no product with a zero is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from noeira.ir.geometry import Geometry

# What the axes of images are called in texts, the last ones if there are fewer.
AXES = ("depth", "height", "width")


@dataclass(frozen=True)
class Phases:
    """The phases along one axis: the numbers of the axis, as `Geometry` has them."""

    name: str
    size: int
    out: int
    kernel: int
    stride: int
    before: int
    dilation: int

    @property
    def count(self) -> int:
        """How many there are."""
        return min(self.stride, self.size)

    @property
    def pixels(self) -> int:
        """Pixels of a phase, the last of which may be beyond the image."""
        return -(-self.size // self.stride)

    @property
    def step(self) -> int:
        """Taps from one of a phase to its next."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def reach(self) -> int:
        """Places from one tap of a phase to its next."""
        return self.dilation // gcd(self.stride, self.dilation)

    @cached_property
    def taps(self) -> tuple[tuple[int, ...], ...]:
        """The taps of each phase."""
        return tuple(
            tuple(
                tap
                for tap in range(self.kernel)
                if (phase + self.before - self.dilation * tap) % self.stride == 0
            )
            for phase in range(self.count)
        )

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first tap of each phase, 0 if it has none."""
        return tuple(taps[0] if taps else 0 for taps in self.taps)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many taps each phase has."""
        return tuple(map(len, self.taps))

    @property
    def most(self) -> int:
        """The taps of a phase, at most, and one at least."""
        return max(1, *self.counts)

    @property
    def even(self) -> bool:
        """Whether all phases have as many taps."""
        return set(self.counts) == {self.most}

    @property
    def bases(self) -> tuple[int, ...]:
        """Where the first tap of each phase meets its first pixel."""
        return tuple(
            (phase + self.before - self.dilation * first) // self.stride
            for phase, first in enumerate(self.firsts)
        )

    @property
    def leaves(self) -> tuple[bool, bool]:
        """Whether a tap meets places before all, and behind all."""
        pairs = zip(self.bases, self.counts, strict=True)
        before = any(base < (count - 1) * self.reach for base, count in pairs if count)
        return before, self.pixels - 1 + max(self.bases) >= self.out

    # C text, in which the present phase is NAME_phase.

    @property
    def phase(self) -> str:
        """The present phase."""
        return f"{self.name}_phase" if self.count > 1 else "0"

    def chosen(self, numbers: tuple[int, ...]) -> str:
        """The number of the present phase, of one for each."""
        if len(set(numbers)) == 1:
            return str(numbers[0])
        pairs = list(enumerate(numbers))
        cases = (f"{self.phase} == {i} ? {number} : " for i, number in pairs[:-1])
        return f"({''.join(cases)}{pairs[-1][1]})"

    @property
    def some(self) -> tuple[int, ...]:
        """How many taps each phase has, or 1 where it has none, which is what is divided by."""
        return tuple(max(1, count) for count in self.counts)

    @property
    def taps_name(self) -> str:
        """How many taps the present phase has."""
        return str(self.most) if set(self.some) == {self.most} else f"{self.name}_taps"


def phases_of(g: Geometry) -> tuple[Phases, ...]:
    """Those along each axis."""
    names = AXES[-len(g.size) :]
    columns = names, g.size, g.out, g.kernel, g.stride, g.before, g.dilation
    return tuple(Phases(*numbers) for numbers in zip(*columns, strict=True))
