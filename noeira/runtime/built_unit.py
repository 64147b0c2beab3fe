"""Units: what a program has of one source, entry points that can be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from noeira.ir.entry import Entry
from noeira.ir.plan import Plan
from noeira.runtime.entry_point import EntryPoint


@dataclass(frozen=True)
class BuiltUnit:
    """What was built: entry points by name, their source and its folder ("" for the reference).

    declared: what each of them is; plans: whose kernels have the same names in a later unit of the
    program, so that they need not be compiled again; request: the key of what decided this one.
    """

    declared: tuple[Entry, ...]
    entries: dict[str, EntryPoint]
    source: str = ""
    folder: str = ""
    plans: tuple[Plan, ...] = ()
    request: str = ""

    def part(self, declared: Sequence[Entry]) -> BuiltUnit:
        """The same source with some of its entries."""
        entries = {entry.name: self.entries[entry.name] for entry in declared}
        return replace(self, declared=tuple(declared), entries=entries)


NOTHING = BuiltUnit((), {})
