"""Units: what a program has of one source, entry points that can be called."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.ir.entry import Entry
from noeira.ir.plan import Plan
from noeira.runtime.entry_point import EntryPoint


@dataclass(frozen=True)
class BuiltUnit:
    """What was built: entry points by name, their source and its folder ("" for the reference).

    declared: what each of them is. key, plans: of the library in the cache, what a later unit of
    the program takes kernels from; request: the key of what decided this one.
    """

    declared: tuple[Entry, ...]
    entries: dict[str, EntryPoint]
    source: str = ""
    folder: str = ""
    key: str = ""
    plans: tuple[Plan, ...] = ()
    request: str = ""


NOTHING = BuiltUnit((), {})
