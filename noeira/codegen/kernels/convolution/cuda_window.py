"""An operand of a convolution as a block takes it: gathered from images, or from a weight whose
taps a phase picks.

An element of op(A) or op(B) lies where the row (or column) and the step say together: each adds
a coordinate along every axis, and elements beside these. What is outside an image is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from noeira.codegen.ctext import plus, quotient, remainder, times
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernels.convolution.cuda_phases import AXES
from noeira.codegen.kernels.gemm.cuda_side import Side


@dataclass(frozen=True)
class Part:
    """C text for what a row or column, called `line`, or a `step` adds: along each axis, and
    elements.
    """

    coordinates: tuple[str, ...]
    rest: str


@dataclass(frozen=True, kw_only=True)
class Window(Side):
    """An operand that is gathered.

    sizes: of the axes that elements are found along, with `pixel` elements at each place; leaves:
    whether coordinates may be before the first and behind the last; neighbours: elements that lie
    together in memory; steps_name: the name of how many steps there are, if phases differ in that.
    """

    gathered: ClassVar[bool] = True
    sizes: tuple[int, ...]
    pixel: int
    leaves: tuple[tuple[bool, bool], ...]
    neighbours: int
    lines: Part
    steps: Part
    steps_name: str = ""

    @property
    def access(self) -> int:
        tile = self.depth if self.along_k else self.extent
        return 1 if self.neighbours % self.lanes or tile % self.lanes else self.lanes

    def guard(self, whole: bool = False) -> str:
        named = f"{self.at_step} < {self.steps_name}" if self.steps_name else ""
        found = super().guard(whole or bool(named))
        return " && ".join(filter(None, (found, named, *self.checks)))

    @property
    def names(self) -> tuple[str, ...]:
        """The axes."""
        return AXES[-len(self.sizes) :]

    @property
    def checks(self) -> tuple[str, ...]:
        """C text of the conditions that a place is there."""
        found = list[str]()
        for name, size, (before, behind) in zip(self.names, self.sizes, self.leaves, strict=True):
            found += [f"{name} >= 0"] * before + [f"{name} < {size}"] * behind
        return tuple(found)

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of what a thread keeps of each of its rows or columns."""
        return (f"{self.letter}_at", *(f"{self.letter}_{name}" for name in self.names))

    @property
    def line_values(self) -> tuple[tuple[str, str], ...]:
        """Those, of access i, with C text for what they are."""
        values = plus(self.lines.rest, self.first_place), *self.lines.coordinates
        return tuple(zip(self.kept_of("i"), values, strict=True))

    @property
    def registers(self) -> int:
        """Registers for those that are no constants."""
        values = (value for _, value in self.line_values)
        own = sum("line" in identifiers(value) for value in values)
        return own * (self.count if self.several else 1)

    def kept_of(self, index: str) -> tuple[str, ...]:
        """Those of an access."""
        return tuple(f"{name}[{index}]" if self.several else name for name in self.kept)

    @property
    def several(self) -> bool:
        """Whether a thread's accesses have different rows or columns."""
        return "i" in identifiers(self.at_line)

    @property
    def kept_arrays(self) -> str:
        """C text that declares those, an element for each access if they differ."""
        length = f"[{self.count}]" if self.several else ""
        return ", ".join(f"{name}{length}" for name in self.kept)

    def looks(self, index: str) -> tuple[tuple[str, str], ...]:
        """Names with C text: of the step, if it matters, and of where access `index` looks along
        the axes.
        """
        places = map(joined, self.kept_of(index)[1:], self.steps.coordinates)
        found = tuple(zip(self.names, places, strict=True))
        used = identifiers("\n".join((*self.steps.coordinates, self.steps.rest)))
        return (("step", self.at_step), *found) if "step" in used else found

    def place_of(self, index: str) -> str:
        """C text for where that is in the operand."""
        place = self.names[0]
        for name, size in zip(self.names[1:], self.sizes[1:], strict=True):
            place = f"({place} * {size} + {name})"
        return plus(self.kept_of(index)[0], times(place, self.pixel), self.steps.rest)


def joined(text: str, other: str) -> str:
    """C text for a sum, the second of which may begin with a minus sign."""
    if other.startswith("-"):
        return f"{'' if text == '0' else f'{text} '}- {other[1:].lstrip()}".strip()
    return plus(text, other)


def digits(text: str, extents: Sequence[int], bound: int) -> tuple[str, ...]:
    """C text for the places along axes of these extents that an index below `bound` numbers, the
    last the fastest.
    """
    found = list[str]()
    for axis, extent in enumerate(extents):
        inner = prod(extents[axis + 1 :])
        place = quotient(text, inner, bound)
        found.append(remainder(place, extent, -(-bound // inner)))
    return tuple(found)


def scaled(text: str, factor: int, offset: int = 0) -> str:
    """C text for a coordinate times a number, and a number beside it."""
    if factor < 0 and text != "0":
        return joined(str(offset) if offset else "0", f"-{times(text, -factor)}")
    return joined(times(text, factor), str(offset))
