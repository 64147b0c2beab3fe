"""What turns plans into programs of C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from noeira import config
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.plan import Plan
from noeira.runtime.c.compiled_entry import CompiledEntry
from noeira.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from noeira.codegen.c.isa import ISA
    from noeira.codegen.c.target import CTarget
    from noeira.runtime.build.cache import Cache
    from noeira.runtime.build.library import Library
    from noeira.runtime.c.builder import CBuilder
    from noeira.runtime.c.compiler import Compiler


@dataclass(frozen=True)
class CToolchain(Toolchain):
    """What turns plans into C programs: the compiler, the cache, a table of choices, and the vector
    unit if it is not the compiler's own.
    """

    name = "cpu"
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
        from noeira.codegen.c.target import CTarget

        return CTarget(self.isa, self.choices)

    @property
    def builder(self) -> CBuilder:
        from noeira.runtime.c.builder import CBuilder

        return CBuilder(self.compiler)

    @property
    def decided(self) -> tuple[str, ...]:
        return self.isa.name, self.compiler.identity, config.CONV.read()

    def entry(self, plan: Plan, library: Library, index: int = 0) -> CompiledEntry:
        from noeira.runtime.build.library import load

        return CompiledEntry(plan, load(library))

    def lenient(self) -> CToolchain:
        return replace(self, compiler=self.compiler.lenient())


def c_toolchain(choices: Choices = NO_CHOICES) -> CToolchain | None:
    """The toolchain of target `cpu`; None without a C compiler."""
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.c.compiler import find_compiler

    cache = open_cache()
    compiler = find_compiler(cache)
    return None if compiler is None else CToolchain(compiler, cache, choices)
