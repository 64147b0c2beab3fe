"""The types of values: a dtype and a shape, and the layouts that name the parts of flat states."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

DTYPE_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i32": 4, "i64": 8, "u8": 1, "bool": 1}
FLOATS = ("f32", "f64", "bf16", "f16")

# Members of a layout start at multiples of 32 elements: 64-byte aligned even in 16 bits.
LAYOUT_ALIGNMENT = 32
# Bytes: where a value begins in memory, of the host and of a device.
ALIGNMENT = 64


@dataclass(frozen=True)
class TensorType:
    """A dense row-major tensor, `f32[100, 784]`, or a flat one with the parts of `f32 @net`."""

    dtype: str
    shape: tuple[int, ...]
    layout: str | None = None

    def __str__(self) -> str:
        if self.layout is not None:
            return f"{self.dtype} @{self.layout}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * DTYPE_BYTES[self.dtype]

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype in FLOATS


Types = tuple[TensorType, ...]


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
    """A named part of a layout: its shape, its first element; decay: weight decay acts on it."""

    name: str
    shape: tuple[int, ...]
    offset: int
    decay: bool = False

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
        return f"{self.name}: {shape} @ {self.offset}{' decay' if self.decay else ''}"


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


def lay_out(
    name: str, shapes: Mapping[str, tuple[int, ...]], decayed: Collection[str] = ()
) -> Layout:
    """Place tensors one after the other, in the order given; weight decay acts on some."""
    offset, members = 0, list[Member]()
    for member, shape in shapes.items():
        members.append(Member(member, shape, offset, member in decayed))
        offset = aligned(members[-1].end)
    return Layout(name, offset, tuple(members))
