"""One plan that can be called: its C function over a table of pointers, or the reference over the
same arrays.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any

from noeira import config
from noeira.codegen.interface import entry_symbol, io_names
from noeira.ir.graph import ComputeGraph
from noeira.ir.interpret import interpret
from noeira.ir.plan import STATE, Plan
from noeira.ir.states import BAD
from noeira.ir.types import TensorType
from noeira.runtime.fork import is_forked
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np


def thread_count() -> int:
    """Threads of a parallel region: NOEIRA_THREADS, or the processors this process may run on; one
    after a fork.
    """
    if is_forked():
        return 1
    chosen = config.THREADS.read()
    if chosen is not None:
        return chosen
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# A native call lasts about this long at most, so that Ctrl-C and progress need no threads.
CALL_SECONDS = 0.05


class EntryPoint:
    """A graph and the arrays it works on, by root: `input x`, `state params`, `output loss`."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph = graph
        self.arrays: dict[str, np.ndarray] = {}
        self.inputs = {i.value.name: i for i in graph.inputs}
        for value in graph.outputs:
            self.bind(f"output {value.name}", aligned_zeros(value.type))

    def bind(self, root: str, array: np.ndarray) -> None:
        """Let the array be the memory of a root."""
        self.arrays[root] = array

    def state_types(self) -> dict[str, TensorType]:
        """The states it reads or updates."""
        return {s.value.name: s.value.type for s in self.graph.states}

    def output(self, name: str) -> np.ndarray:
        """The memory of an output, as the last call left it."""
        return self.arrays[f"output {name}"]

    def run(self, steps: int = 1) -> int:
        """Up to `steps` calls in turn, for about CALL_SECONDS at most; gives how many. A call that
        was not ok is the last.
        """
        raise NotImplementedError


class CompiledEntry(EntryPoint):
    """A plan's C function."""

    def __init__(self, plan: Plan, library: ctypes.CDLL) -> None:
        self.table = (ctypes.c_void_p * max(len(io_names(plan)), 1))()
        self.slots = {name: i for i, name in enumerate(io_names(plan))}
        super().__init__(plan.graph)
        self.plan, self.library = plan, library
        self.arena = aligned_zeros(TensorType("u8", (max(plan.arena, 1),)))
        self.function: Any = getattr(library, entry_symbol(plan.name))
        self.function.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_double,
        ]
        self.function.restype = ctypes.c_long
        self.arena_address = self.arena.ctypes.data
        self.table_address = ctypes.addressof(self.table)

    def bind(self, root: str, array: np.ndarray) -> None:
        self.arrays[root] = array
        self.table[self.slots[root]] = array.ctypes.data

    def run(self, steps: int = 1) -> int:
        return self.function(
            self.arena_address, self.table_address, thread_count(), steps, CALL_SECONDS
        )


class ReferenceEntry(EntryPoint):
    """A graph run with NumPy."""

    def run(self, steps: int = 1) -> int:
        end = time.perf_counter() + CALL_SECONDS
        for step in range(steps):
            self.call()
            if time.perf_counter() > end:
                return step + 1
            bad = self.arrays.get(f"{STATE} {BAD}")
            if bad is not None and bad[()] >= 0:
                return step + 1
        return steps

    def given(self) -> dict[str, np.ndarray]:
        """Inputs and states by name."""
        return {
            root.split(" ", 1)[1]: a
            for root, a in self.arrays.items()
            if not root.startswith("output ")
        }

    def call(self) -> None:
        """One call: the new values of states are written when all are known."""
        values = interpret(self.graph, self.given())
        for update in self.graph.updates:
            self.arrays[f"state {update.state.name}"][...] = values[update.new.name]
        for value in self.graph.outputs:
            self.arrays[f"output {value.name}"][...] = values[value.name]
