"""A toolchain: what turns plans into programs for one target, through a compiler and the cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from noeira.ir.choices import Choices
from noeira.ir.entry import Entry
from noeira.ir.plan import Plan
from noeira.runtime.built_unit import BuiltUnit
from noeira.runtime.entry_point import EntryPoint

if TYPE_CHECKING:
    from noeira.codegen.source import Source
    from noeira.codegen.target import Target
    from noeira.runtime.build.builder import LibraryBuilder
    from noeira.runtime.build.cache import Cache
    from noeira.runtime.build.library import Library


class Toolchain(ABC):
    """What turns plans into programs for one target.

    name: of the target; cache: where units are kept; choices: a table of tuned choices.
    """

    name: str
    cache: Cache
    choices: Choices

    @cached_property
    @abstractmethod
    def target(self) -> Target:
        """What code is generated for; a warm start does not ask for it."""

    @property
    @abstractmethod
    def builder(self) -> LibraryBuilder:
        """What builds units."""

    @property
    @abstractmethod
    def decided(self) -> tuple[str, ...]:
        """What decides a unit besides its graphs: target and compiler."""

    @abstractmethod
    def entry(self, plan: Plan, library: Library, index: int = 0) -> EntryPoint:
        """The entry point of a plan, the one of this index in a library."""

    def unit(
        self, declared: Sequence[Entry], request: str, library: Library, plans: Sequence[Plan]
    ) -> BuiltUnit:
        """The entry points of a library that a request led to."""
        pairs = enumerate(zip(declared, plans, strict=True))
        entries = {one.name: self.entry(plan, library, index) for index, (one, plan) in pairs}
        folder = str(library.entry_folder)
        kept = library.text, folder, tuple(plans), request
        return BuiltUnit(tuple(declared), entries, *kept)

    def request(self, name: str, graphs: Iterable[str]) -> str:
        """The key of what decides a unit: graphs with the passes to run on them, target, table of
        choices, compiler, and noeira's own sources.

        "" if a graph has ops that are defined outside noeira: it does not say what they do.
        """
        from noeira.ir.op import names_foreign
        from noeira.runtime.build.cache_entry import digest_of
        from noeira.runtime.build.own_sources import own_digest

        graphs = list(graphs)
        if any(map(names_foreign, graphs)):
            return ""
        own = own_digest(self.cache)
        return digest_of("request", name, own, self.choices.decisions, *self.decided, *graphs)

    def warm_start(self, request: str) -> tuple[Library, list[Plan]] | None:
        """The library that a request led to before, and its plans."""
        from noeira.runtime.build.library import open_library

        key = self.cache.recall(request) if request else None
        library = None if key is None else open_library(key, self.builder, self.cache)
        return None if library is None else (library, library.parsed_plans())

    def build(self, source: Source, request: str = "") -> Library:
        """The library of a source, built or from the cache; remembered for the request."""
        from noeira.runtime.build.library import build_library

        library = build_library(source, self.builder, self.cache)
        if request:
            self.cache.remember(request, library.key)
        return library

    @abstractmethod
    def lenient(self) -> Self:
        """The same, with warnings no errors: for sources that a person edited."""
