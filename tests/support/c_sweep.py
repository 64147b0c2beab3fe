"""Kernels of many cases in one unit of C, whose threads take their turns one after the other."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from guarded import Guarded, workspace_of
from limits import Limits, limited
from sweep import Case
from unit_cache import unit_cache

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.prelude import prelude
from noeira.codegen.c.target import CTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernel import kernel_text
from noeira.codegen.language import C
from noeira.codegen.source import Source
from noeira.codegen.view import function_names
from noeira.ir.plan import Call, Choice
from noeira.runtime.build.library import build_library, load
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.c.compiler import Compiler, find_compiler

# Threads, and whether they take their turns backwards: no result may depend on either.
WAYS = ((1, False), (2, True), (3, False), (7, True))


def compiler_or_skip() -> Compiler:
    """The C compiler; skips the test without."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    return compiler


def quick(compiler: Compiler) -> Compiler:
    """The same with less optimization, where the same kernels are built in full elsewhere."""
    flags = tuple("-O1" if flag == "-O3" else flag for flag in compiler.flags)
    return replace(compiler, flags=flags)


def for_isa(compiler: Compiler, isa: ISA) -> Compiler:
    """The same for the kernels of another vector unit that this processor has too."""
    return replace(compiler, isa=isa)


@dataclass(frozen=True)
class CKernels:
    """The kernels of many cases in one C unit."""

    target: CTarget
    cases: tuple[Case, ...]
    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, target: CTarget, cases: Sequence[Case], limits: Limits | None = None) -> CKernels:
        """The kernels as the target chooses them, with these limits for threads and chunks."""
        with limited(limits or {}):
            return cls(target, tuple(cases), tuple(target.choose(case.node) for case in cases))

    @cached_property
    def text(self) -> str:
        """The unit. It exports a function a case, which runs the stages thread after thread."""
        symbols: dict[str, str] = {}
        kernels, entries = list[str](), list[str]()
        for number, (case, choice) in enumerate(zip(self.cases, self.choices, strict=True)):
            call = Call(case.node, choice)
            text = kernel_text(call, self.target, "KERNEL")
            symbol = symbols.setdefault(text, f"kernel_{len(symbols)}")
            if len(symbols) > len(kernels):
                kernels.append(f"// {case.label}\n" + text.replace("KERNEL", symbol))
            entries.append(entry_text(call, symbol, number))
        body = "\n".join(kernels)
        return "\n".join([prelude(self.target.machine, identifiers(body)), body, *entries])

    def built(self, compiler: Compiler) -> CLibrary:
        """The unit as a shared library, which other runs of the tests share."""
        source = Source(C, "sweep", self.text, "")
        return CLibrary(self, load(build_library(source, CBuilder(compiler), unit_cache())))


def entry_text(call: Call, symbol: str, number: int) -> str:
    """An exported function that runs the stages of a call, each thread after thread."""
    count = len(call.node.inputs) + len(call.node.outputs)
    arguments = "".join(f", p[{i}]" for i in range(count))
    calls = "\n".join(
        f"    for (int i = 0; i < threads; i++)\n"
        f"        {name}(backwards ? threads - 1 - i : i, threads, space{arguments});"
        for name in function_names(call, symbol)
    )
    head = f"void noeira_case_{number}(int threads, int backwards, char *space, void *const *p)"
    return f"{head};\n{head} {{\n{calls}\n}}\n"


@dataclass(frozen=True)
class CLibrary:
    """Built kernels."""

    kernels: CKernels
    handle: ctypes.CDLL
    ways = WAYS

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of each case, by its identity."""
        return {id(case): number for number, case in enumerate(self.kernels.cases)}

    def run(
        self,
        case: Case,
        arrays: Sequence[np.ndarray],
        way: tuple[int, bool] = (3, False),
        in_place: bool = False,
    ) -> list[np.ndarray]:
        """The outputs of a case. `way`: how many threads take their turns, and whether the last is
        first.

        `in_place`: outputs take over the memory of the operands that the op lets them have.
        """
        number = self.numbers[id(case)]
        memory = Guarded.of(case.label, arrays, case.node.outputs, case.aliases(in_place))
        size = self.kernels.choices[number].workspace
        workspace = workspace_of(size)
        pointers = memory.pointers
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        place = ctypes.c_void_p(workspace.ctypes.data if size else None)
        getattr(self.handle, f"noeira_case_{number}")(*way, place, table)
        return memory.results()
