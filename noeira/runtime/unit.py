"""Units: from a source to entry points that can be called, through the compiler and the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import Plan
from noeira.runtime.disk import log
from noeira.runtime.entry_point import CompiledEntry, EntryPoint, ReferenceEntry

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget
    from noeira.codegen.source import Source
    from noeira.codegen.target import ISA
    from noeira.runtime.build import Library
    from noeira.runtime.c_compiler import Compiler
    from noeira.runtime.cache import Cache

NO_COMPILER = "no C compiler was found: programs run on the NumPy reference, slowly.\n"


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


@dataclass(frozen=True)
class Toolchain:
    """What turns plans into C programs: the compiler, the cache, a table of choices, and the vector
    unit if it is not the compiler's own.
    """

    compiler: Compiler
    cache: Cache
    choices: Choices = NO_CHOICES
    other_isa: ISA | None = None

    @property
    def isa(self) -> ISA:
        """The vector unit that C is written for."""
        return self.other_isa or self.compiler.isa

    @cached_property
    def target(self) -> CTarget:
        """The target, which a warm start does not need."""
        from noeira.codegen.c import CTarget

        return CTarget(self.isa, self.choices)

    def request(self, name: str, graphs: Iterable[str]) -> str:
        """The key of what decides a unit: graphs with the passes to run on them, target, table of
        choices, compiler, and noeira's own sources.

        "" if ops are defined outside noeira: a graph names them, but does not say what they do.
        """
        from noeira.ir.op import OPS
        from noeira.runtime.cache_entry import digest_of
        from noeira.runtime.own import own_digest

        if any(op.foreign for op in OPS.values()):
            return ""
        own = own_digest(self.cache)
        decided = self.isa.name, self.choices.decisions, self.compiler.identity
        return digest_of("request", name, own, *decided, *graphs)

    def warm_start(self, request: str) -> tuple[Library, list[Plan]] | None:
        """The library that a request led to before, and its plans."""
        from noeira.runtime.build import open_library

        key = self.cache.recall(request) if request else None
        library = None if key is None else open_library(key, self.compiler, self.cache)
        return None if library is None else (library, library.parsed_plans())

    def build(self, source: Source, request: str = "", earlier: Library | None = None) -> Library:
        """The library of a source, built or from the cache; remembered for the request. Kernels
        that an earlier library has are not compiled again.
        """
        from noeira.runtime.build import build_library

        known = earlier.entry if earlier else None
        library = build_library(source, self.compiler, self.cache, known)
        if request:
            self.cache.remember(request, library.key)
        return library


def choose_toolchain(target: str, choices: Choices = NO_CHOICES) -> Toolchain | None:
    """The toolchain of target `cpu` with a table of choices; None for `reference`, and without a C
    compiler (said once).
    """
    if target == "reference":
        return None
    from noeira.runtime.c_compiler import ADVICE, find_compiler
    from noeira.runtime.cache import open_cache

    cache = open_cache()
    compiler = find_compiler(cache)
    if compiler is None:
        warn_once(NO_COMPILER + ADVICE)
        return None
    return Toolchain(compiler, cache, choices)


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning, the first time only."""
    if message not in _warned:
        _warned.add(message)
        log("warning", "%s", message)


def compiled_unit(
    names: Sequence[str], request: str, library: Library, plans: Sequence[Plan]
) -> Unit:
    """The entry points of a library that a request led to."""
    from noeira.runtime.build import load

    handle = load(library)
    entries = {name: CompiledEntry(plan, handle) for name, plan in zip(names, plans, strict=True)}
    source = library.entry.read("unit.c").decode()
    folder = str(library.entry_folder)
    return Unit(dict(entries), source, folder, library, tuple(plans), request)


def reference_unit(names: Sequence[str], graphs: Sequence[ComputeGraph]) -> Unit:
    """Entry points that run graphs with NumPy."""
    return Unit({n: ReferenceEntry(g) for n, g in zip(names, graphs, strict=True)})
