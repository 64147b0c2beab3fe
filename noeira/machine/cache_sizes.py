"""The sizes of the processor's caches, as far as the system tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CPU = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Level:
    """A level of cache: its name, and the bytes it holds for all threads together."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Cache:
    """One cache: the level's number, its bytes, and the number of processors that share it."""

    level: int
    bytes: int
    sharing: int


# Where the system does not tell: what most processors have at least.
COMMON = (Cache(1, 32 << 10, 1), Cache(2, 512 << 10, 1), Cache(3, 8 << 20, 4))


def cache_levels(threads: int, caches: tuple[Cache, ...] | None = None) -> tuple[Level, ...]:
    """The levels that `threads` threads on processors of their own have, the smallest first.

    A level that holds hardly more than the one before is left out: its bandwidth could not be told
    from that one's.
    """
    known = tuple(data_caches(CPU)) if caches is None else caches
    found = list[Level]()
    for cache in sorted(known or COMMON, key=lambda cache: cache.level):
        total = cache.bytes * -(-threads // cache.sharing)
        if not found or total >= 2 * found[-1].bytes:
            found.append(Level(f"L{cache.level}", total))
    return tuple(found)


def data_caches(folder: Path) -> Iterator[Cache]:
    """The caches of a processor that hold data, from Linux's description of it."""
    for index in folder.glob("index*"):
        try:
            kind, level, size, shared = (
                (index / name).read_text().strip()
                for name in ("type", "level", "size", "shared_cpu_list")
            )
            digits, unit = re.fullmatch(r"(\d+)([KMG]?)", size).groups()  # type: ignore[union-attr]
            if kind != "Instruction":
                yield Cache(int(level), int(digits) * UNITS[unit], processors(shared))
        except (OSError, AttributeError, ValueError):
            continue


def processors(text: str) -> int:
    """How many processors a list such as `0-3,8` names."""
    spans = [part.split("-") for part in text.split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
