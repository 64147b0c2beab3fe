"""What the stages of a kernel leave for each other: arrays in the call's workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noeira.codegen.elements import STORAGE_BYTES, ctype
from noeira.codegen.view import Scratch, ScratchOperand, is_taken
from noeira.errors import VerifyError
from noeira.ir.types import padded


@dataclass(frozen=True)
class Room:
    """An array of `size` elements that the stages of a kernel share, under the same name in its
    template and in C. dtype: any that values have, or `u64`.

    Of how many threads there are no size can follow, since a plan is made for any number: what one
    thread keeps is an array in its function, or its part of a room for as many as the cut says.
    """

    name: str
    dtype: str
    size: int

    def __post_init__(self) -> None:
        word = self.name.isascii() and self.name.isidentifier()
        if not word or is_taken(self.name):
            why = "kernels have it for something else" if word else "it is no word of C"
            raise VerifyError(f"scratch: {self.name!r} cannot be the name of an array: {why}")
        if self.dtype not in STORAGE_BYTES:
            known = ", ".join(STORAGE_BYTES)
            raise VerifyError(f"scratch: {self.name} is of {self.dtype!r}; there are {known}")

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * STORAGE_BYTES[self.dtype]


def offsets(rooms: Sequence[Room]) -> tuple[int, ...]:
    """Where each room begins, in bytes from the first."""
    found, end = list[int](), 0
    for room in rooms:
        found.append(padded(end))
        end = found[-1] + room.bytes
    return tuple(found)


def bytes_of(rooms: Sequence[Room]) -> int:
    """Bytes of all rooms."""
    return offsets(rooms)[-1] + rooms[-1].bytes if rooms else 0


def scratch_arrays(rooms: Sequence[Room], start: int) -> Scratch:
    """What a template sees of rooms, from `start` in the workspace on."""
    found = (
        ScratchOperand(one.name, ctype(one.dtype), one.dtype, (one.size,), one.size, start + offset)
        for one, offset in zip(rooms, offsets(rooms), strict=True)
    )
    return Scratch(**{one.id: one for one in found})
