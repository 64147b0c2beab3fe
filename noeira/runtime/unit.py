"""Units: what a program has of one source, entry points that can be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import Plan
from noeira.runtime.entry_point import EntryPoint, ReferenceEntry

if TYPE_CHECKING:
    from noeira.runtime.build.library import Library


@dataclass(frozen=True)
class Unit:
    """What was built: entry points by name, their source and its folder ("" for the reference).

    library, plans: what a later unit of the program takes kernels from; request: the key of what
    decided this one.
    """

    entries: dict[str, EntryPoint]
    source: str = ""
    folder: str = ""
    library: Library | None = None
    plans: tuple[Plan, ...] = ()
    request: str = ""


NOTHING = Unit({})


def built_unit(
    entries: dict[str, EntryPoint], request: str, library: Library, plans: Sequence[Plan]
) -> Unit:
    """The unit of a library that a request led to."""
    folder = str(library.entry_folder)
    return Unit(entries, library.text, folder, library, tuple(plans), request)


def reference_unit(names: Sequence[str], graphs: Sequence[ComputeGraph]) -> Unit:
    """Entry points that run graphs with NumPy."""
    return Unit({n: ReferenceEntry(g) for n, g in zip(names, graphs, strict=True)})
