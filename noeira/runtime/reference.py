"""The reference: graphs run with NumPy, where there is no compiler or none is wanted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.entry import Entry
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import OUTPUT, STATE, root_of
from noeira.ir.states import BAD
from noeira.log import log_once
from noeira.runtime.built_unit import BuiltUnit
from noeira.runtime.entry_point import CALL_SECONDS, EntryPoint

NO_COMPILER = "no C compiler was found: programs run on the NumPy reference, slowly.\n"


class ReferenceEntry(EntryPoint):
    """A graph run with NumPy."""

    def run(self, steps: int = 1) -> int:
        end = time.perf_counter() + CALL_SECONDS
        for step in range(steps):
            self.call()
            if time.perf_counter() > end:
                return step + 1
            bad = self.arrays.get(root_of(STATE, BAD))
            if bad is not None and bad[()] >= 0:
                return step + 1
        return steps

    def call(self) -> None:
        """One call: the new values of states are written when all are known."""
        import numpy as np

        from noeira.ir.interpret import interpret

        values = interpret(self.graph, self.given())
        states = [self.arrays[root_of(STATE, u.state.name)] for u in self.graph.updates]
        new = [np.asarray(values[u.new.name]) for u in self.graph.updates]
        # What an op gave may be the very memory of a state that is written before it is read.
        new = [a.copy() if any(np.may_share_memory(a, s) for s in states) else a for a in new]
        for state, array in zip(states, new, strict=True):
            state[...] = array
        for value in self.graph.outputs:
            self.arrays[root_of(OUTPUT, value.name)][...] = values[value.name]


@dataclass(frozen=True)
class ReferenceToolchain:
    """What makes programs of graphs alone: there are no plans, no source, and nothing is built."""

    name = "reference"
    choices: Choices = NO_CHOICES

    def entry(self, graph: ComputeGraph) -> ReferenceEntry:
        """The entry point of a graph after its last pass."""
        return ReferenceEntry(graph)

    def unit(self, declared: Sequence[Entry], graphs: Sequence[ComputeGraph]) -> BuiltUnit:
        """The entry points of a program."""
        pairs = zip(declared, graphs, strict=True)
        return BuiltUnit(tuple(declared), {entry.name: self.entry(graph) for entry, graph in pairs})


def reference_without_compiler() -> ReferenceToolchain:
    """The reference in place of a C compiler, which is said once."""
    from noeira.runtime.c.compiler import SEARCH

    log_once("warning", NO_COMPILER + SEARCH.advice)
    return ReferenceToolchain()
