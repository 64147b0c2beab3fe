"""Units: from a source to entry points that can be called, through the compiler and the cache."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import VERSION, Plan, parse_plan
from noeira.runtime.entry_point import CompiledEntry, EntryPoint, ReferenceEntry

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget
    from noeira.codegen.source import Source
    from noeira.runtime.build import Library
    from noeira.runtime.c_compiler import Compiler
    from noeira.runtime.cache import Cache

NO_COMPILER = "no C compiler was found: programs run on the NumPy reference, slowly.\n"


@dataclass(frozen=True)
class Unit:
    """What was built: entry points by name, their source and its folder ("" for the reference)."""

    entries: dict[str, EntryPoint]
    source: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Toolchain:
    """What turns plans into C programs: the target, the compiler and the cache."""

    target: CTarget
    compiler: Compiler
    cache: Cache

    def request(self, name: str, graphs: Iterable[str]) -> str:
        """The key of what decides a unit: graphs with the passes to run on them, target, compiler,
        and noeira's own sources.

        "" if ops are defined outside noeira: a graph names them, but does not say what they do.
        """
        from noeira.ir.op import OPS
        from noeira.runtime.cache_entry import digest_of
        from noeira.runtime.own import own_digest

        if any(op.foreign for op in OPS.values()):
            return ""
        own = own_digest(self.cache)
        return digest_of("request", name, own, self.target.name, self.compiler.identity, *graphs)

    def warm_start(self, request: str) -> tuple[Library, list[Plan]] | None:
        """The library that a request led to before, and its plans."""
        from noeira.runtime.build import open_library

        key = self.cache.recall(request) if request else None
        library = None if key is None else open_library(key, self.compiler, self.cache)
        return None if library is None else (library, split_plans(library.plans))

    def build(self, source: Source, request: str = "") -> Library:
        """The library of a source, built or from the cache; remembered for the request."""
        from noeira.runtime.build import build_library

        library = build_library(source, self.compiler, self.cache)
        if request:
            self.cache.remember(request, library.key)
        return library


def choose_toolchain(target: str) -> Toolchain | None:
    """The toolchain of target `cpu`; None for `reference`, and without a C compiler (said once)."""
    if target == "reference":
        return None
    from noeira.runtime.c_compiler import ADVICE, find_compiler
    from noeira.runtime.cache import open_cache

    cache = open_cache()
    compiler = find_compiler(cache)
    if compiler is None:
        warn_once(NO_COMPILER + ADVICE)
        return None
    from noeira.codegen.c import CTarget

    return Toolchain(CTarget(compiler.isa), compiler, cache)


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning, the first time only."""
    if message not in _warned:
        _warned.add(message)
        logging.getLogger("noeira").warning(message)


def split_plans(text: str) -> list[Plan]:
    """The plans of a unit, from their text one after the other."""
    return [parse_plan(VERSION + part) for part in text.split(VERSION)[1:]]


def compiled_unit(names: Sequence[str], library: Library, plans: Sequence[Plan]) -> Unit:
    """The entry points of a built library."""
    from noeira.runtime.build import load

    handle = load(library)
    entries = {name: CompiledEntry(plan, handle) for name, plan in zip(names, plans, strict=True)}
    source = library.entry.read("unit.c").decode()
    return Unit(dict(entries), source, str(library.entry_folder))


def reference_unit(names: Sequence[str], graphs: Sequence[ComputeGraph]) -> Unit:
    """Entry points that run graphs with NumPy."""
    return Unit({n: ReferenceEntry(g) for n, g in zip(names, graphs, strict=True)})
