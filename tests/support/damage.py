"""Damaged files: a safetensors file with something wrong in it, as disks, networks and editors make
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

Random = np.random.Generator
Change = Callable[[bytes, Random], bytes]


def place(data: bytes, random: Random) -> int:
    """Somewhere in a file, half of the time in its beginning."""
    return int(random.integers(len(data) if random.random() < 0.5 else min(len(data), 300)))


def bit(data: bytes, random: Random) -> bytes:
    """One bit flipped."""
    at = place(data, random)
    return data[:at] + bytes([data[at] ^ (1 << random.integers(8))]) + data[at + 1 :]


def byte(data: bytes, random: Random) -> bytes:
    """One byte replaced."""
    at = place(data, random)
    return data[:at] + random.bytes(1) + data[at + 1 :]


def burst(data: bytes, random: Random) -> bytes:
    """Some bytes on end replaced, as where a block of a disk was lost."""
    at, count = place(data, random), int(random.integers(1, 100))
    new = bytes(count) if random.random() < 0.5 else random.bytes(count)
    return data[:at] + new[: len(data) - at] + data[at + count :]


def cut(data: bytes, random: Random) -> bytes:
    """The end missing."""
    return data[: place(data, random)]


def hole(data: bytes, random: Random) -> bytes:
    """Something missing in the middle."""
    at = place(data, random)
    return data[:at] + data[at + int(random.integers(1, 100)) :]


def more(data: bytes, random: Random) -> bytes:
    """Something put in, or put behind."""
    at = place(data, random) if random.random() < 0.7 else len(data)
    return data[:at] + random.bytes(int(random.integers(1, 100))) + data[at:]


def exchanged(data: bytes, random: Random) -> bytes:
    """Two stretches in each other's place."""
    a, b, c = sorted(int(random.integers(len(data))) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def length(data: bytes, random: Random) -> bytes:
    """Another length of the header."""
    old = int.from_bytes(data[:8], "little")
    near, far = old + int(random.integers(-20, 20)), int(random.integers(2**62))
    new = max(near if random.random() < 0.7 else far, 0)
    return new.to_bytes(8, "little") + data[8:]


def header(data: bytes, random: Random) -> bytes:
    """Something else in the header, which stays JSON, as whoever edits a file makes it."""
    end = 8 + int.from_bytes(data[:8], "little")
    found: dict[str, Any] = json.loads(data[8:end])
    names = [name for name in found if name != "__metadata__"]
    name = names[random.integers(len(names))]
    one = found[name]
    kind = int(random.integers(7))
    if kind == 0:
        found[name + "x"] = found.pop(name)
    elif kind == 1:
        del found[name]
    elif kind == 2:
        one["dtype"] = ["F16", "BF16", "I8", "F99", 3][random.integers(5)]
    elif kind == 3:
        one["shape"] = [*one["shape"], int(random.integers(2, 5))]
    elif kind == 4:
        one["data_offsets"][random.integers(2)] += int(random.integers(1, 50))
    elif kind == 5:
        del one[["dtype", "shape", "data_offsets"][random.integers(3)]]
    else:
        other = names[random.integers(len(names))]
        found[name if other == name else other] = {**one, "shape": [*one["shape"], 7]}
    text = json.dumps(found, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + data[end:]


def in_header(change: Change) -> Change:
    """A change to the length and the header alone."""

    def changed(data: bytes, random: Random) -> bytes:
        end = 8 + int.from_bytes(data[:8], "little")
        return change(data[:end], random) + data[end:]

    changed.__name__ = f"{change.__name__}_in_header"
    return changed


# What is seen in a file of noeira's, which has a checksum; and in any safetensors file, where what
# the elements are is not known.
OURS: tuple[Change, ...] = (bit, byte, burst, cut, hole, more, exchanged, length, header)
THEIRS: tuple[Change, ...] = (
    *(in_header(change) for change in (bit, byte, burst, hole)),
    cut,
    hole,
    more,
    length,
    header,
)


def damaged(data: bytes, changes: tuple[Change, ...], random: Random) -> tuple[str, bytes]:
    """A file that is not as it was, and what was done to it."""
    while True:
        change = changes[random.integers(len(changes))]
        made = change(data, random)
        if made != data:
            return change.__name__, made
