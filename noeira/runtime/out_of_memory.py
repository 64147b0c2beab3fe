"""What is said where memory runs out, of a device or of the host."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from noeira.errors import DeviceMemoryError
from noeira.ir.plan import LITERAL, Plan

# Values that are named.
NAMED = 3


def gigabytes(nbytes: int) -> str:
    """`1.25 GB`, or a smaller unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:,.2f} {unit}"
    return f"{nbytes} bytes"


def host_memory() -> tuple[int, int]:
    """Free and all bytes of the host's memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")


def out_of_host_memory(asked: int) -> DeviceMemoryError:
    """The error for memory that the host does not have."""
    return out_of_memory("the host", asked, *host_memory())


def lacking_host_memory(error: MemoryError) -> DeviceMemoryError:
    """The error for an allocation of Python's or NumPy's that failed; the latter says of what."""
    if len(error.args) != 2:
        return out_of_host_memory(0)
    shape, dtype = error.args
    return out_of_host_memory(math.prod(shape) * dtype.itemsize)


def out_of_memory(
    device: str, asked: int, free: int, total: int, largest: Sequence[tuple[str, int]] = ()
) -> DeviceMemoryError:
    """The error for an allocation that failed. asked: bytes, 0 if nobody says how many. largest:
    names of values, and their bytes.
    """
    wanted = f"asked for {gigabytes(asked)}, " if asked else ""
    text = f"out of memory on {device}: {wanted}{gigabytes(free)} of {gigabytes(total)} are free"
    if largest:
        values = ", ".join(f"{name} ({gigabytes(nbytes)})" for name, nbytes in largest)
        text += f"; the largest values are {values}: try a smaller batch"
    return DeviceMemoryError(text, asked, free, total)


def with_largest_values(error: DeviceMemoryError, place: str, plan: Plan) -> DeviceMemoryError:
    """The same error with the largest values of a plan. place: what is out of memory."""
    largest = largest_values(plan)[:NAMED]
    return out_of_memory(place, error.asked, error.free, error.total, largest)


def largest_values(plan: Plan) -> list[tuple[str, int]]:
    """Values with memory of their own and their bytes, the largest first: one for each place."""
    names = dict[tuple[str, int, int], str]()
    for place in plan.places:
        if place.kind != LITERAL:
            names.setdefault((place.root, place.offset, place.size), f"%{place.name}")
    found = [(name, size) for (_, _, size), name in names.items()]
    return sorted(found, key=lambda pair: -pair[1])
