"""The layouts that name the parts of flat states, and ranges of flat tensors with numbers of their
own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

# Members of a layout start at multiples of 32 elements: 64-byte aligned even in 16 bits.
LAYOUT_ALIGNMENT = 32


@dataclass(frozen=True)
class Range:
    """Elements start … stop of a flat tensor, `stop` not included, and the numbers that are theirs:
    `0:203264`, `64:96 (weight_decay = 0.0)`.
    """

    start: int
    stop: int
    numbers: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} = {value!r}" for name, value in self.numbers)
        return f"{self.start}:{self.stop}" + (f" ({numbers})" if numbers else "")


@dataclass(frozen=True)
class Member:
    """A named part of a layout: its shape, its first element, the order in which its axes lie
    there; decay: weight decay acts on it.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    decay: bool = False
    order: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """One past the last element."""
        return self.offset + self.size

    def __str__(self) -> str:
        shape = f"[{', '.join(map(str, self.shape))}]"
        order = f" {self.order}" if self.order else ""
        return f"{self.name}: {shape}{order} @ {self.offset}{' decay' if self.decay else ''}"


@dataclass(frozen=True)
class Layout:
    """How named tensors lie in one flat tensor of `size` elements; the gaps between stay zero."""

    name: str
    size: int
    members: tuple[Member, ...]

    def __str__(self) -> str:
        lines = [f"  {member}" for member in self.members]
        return "\n".join([f"layout @{self.name}: {self.size} {{", *lines, "}"])

    def member(self, name: str) -> Member:
        """The member called `name`; KeyError if there is none."""
        for member in self.members:
            if member.name == name:
                return member
        raise KeyError(name)


def aligned(elements: int) -> int:
    """The next multiple of the layout's alignment."""
    return -(-elements // LAYOUT_ALIGNMENT) * LAYOUT_ALIGNMENT


NO_ORDERS: Mapping[str, str] = {}


def lay_out(
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    decayed: Collection[str] = (),
    orders: Mapping[str, str] = NO_ORDERS,
) -> Layout:
    """Place tensors one after the other, in the order given; weight decay acts on some. orders: in
    which the axes of some lie.
    """
    offset, members = 0, list[Member]()
    for member, shape in shapes.items():
        order = orders.get(member, "")
        members.append(Member(member, shape, offset, member in decayed, order))
        offset = aligned(members[-1].end)
    return Layout(name, offset, tuple(members))
