"""One plan that can be called: its C function over a table of pointers, or the reference over the
same arrays.

A call from Python is to cost little beside a step of some microseconds, so what does not change
from call to call is made before. The C function gets ctypes objects that are made once: converting
Python's numbers afresh takes ctypes longer than cffi, passing these less. A module in C would take
a third of the time, and a compiler with the headers of the very Python, which users need not have.
Addresses of users' arrays are asked for at every call: NumPy may move an array's memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from noeira import config
from noeira.codegen.interface import entry_symbol, io_names
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import STATE, Plan
from noeira.ir.types import TensorType
from noeira.runtime.arguments import Exact
from noeira.runtime.fork import is_forked
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store


def thread_count() -> int:
    """Threads of a call: NOEIRA_THREADS, or the processors this process may run on; one
    after a fork.
    """
    if is_forked():
        return 1
    return config.THREADS.read() or processor_count()


def processor_count() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


addressof: Callable[[Any], int] = ctypes.addressof
from_buffer: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer

# A native call lasts about this long at most, so that Ctrl-C and progress need no threads.
CALL_SECONDS = 0.05


class EntryPoint:
    """A graph and the arrays it works on, by root: `input x`, `state params`, `output loss`."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph = graph
        self.arrays: dict[str, np.ndarray] = {}
        self.inputs = {i.value.name: i for i in graph.inputs}
        self.input_roots = tuple(f"input {name}" for name in self.inputs)
        self.exact = tuple(Exact(i) for i in graph.inputs)
        self.own_outputs = {f"output {v.name}": aligned_zeros(v.type) for v in graph.outputs}
        self.output_bytes = sum(array.nbytes for array in self.own_outputs.values())
        self.bind_own_outputs()

    def bind(self, root: str, array: np.ndarray) -> None:
        """Let the array be the memory of a root."""
        self.arrays[root] = array

    def bind_state(self, name: str, array: np.ndarray, store: Store | None = None) -> None:
        """Let the array be a state, which is the store's if there is one."""
        self.bind(f"{STATE} {name}", array)

    def take_over(self, root: str, other: EntryPoint, other_root: str) -> None:
        """Let a root be the same memory as a root of another entry, whatever that holds now or
        later.
        """
        self.bind(root, other.arrays[other_root])

    def given(self) -> dict[str, np.ndarray]:
        """Inputs and states by name, with their newest elements, to be read."""
        return {
            root.split(" ", 1)[1]: array
            for root, array in self.arrays.items()
            if not root.startswith("output ")
        }

    def takes(self, given: Sequence[Any]) -> bool:
        """Whether these are its inputs, in order, in no need of a message or a conversion."""
        return len(given) == len(self.exact) and all(map(Exact.is_met_by, self.exact, given))

    def bind_inputs(self, arrays: Sequence[np.ndarray]) -> None:
        """Let the arrays, which have been checked, be its inputs in order."""
        for index, array in enumerate(arrays):
            self.bind(self.input_roots[index], array)

    def bind_own_outputs(self) -> None:
        """Let the outputs be in its own memory, as they are at first."""
        for root, array in self.own_outputs.items():
            self.bind(root, array)

    def output(self, name: str) -> np.ndarray:
        """The memory of an output, as the last call left it."""
        return self.arrays[f"output {name}"]

    def outputs(self) -> Iterator[np.ndarray]:
        """The memory of every output, in order."""
        return map(self.arrays.__getitem__, self.own_outputs)

    def run(self, steps: int = 1) -> int:
        """Up to `steps` calls in turn, for about CALL_SECONDS at most; gives how many. A call that
        was not ok is the last.
        """
        raise NotImplementedError


class CompiledEntry(EntryPoint):
    """A plan's C function. NOEIRA_THREADS is read when this is made."""

    def __init__(self, plan: Plan, library: ctypes.CDLL) -> None:
        self.table = (ctypes.c_void_p * max(len(io_names(plan)), 1))()
        self.slots = {name: i for i, name in enumerate(io_names(plan))}
        super().__init__(plan.graph)
        self.plan, self.library = plan, library
        self.arena_address = ctypes.c_void_p()
        self.use_arena(aligned_zeros(TensorType("u8", (max(plan.arena, 1),))))
        self.function: Any = library[entry_symbol(plan.name)]
        self.function.restype = ctypes.c_long
        self.threads, self.steps = ctypes.c_int(thread_count()), ctypes.c_long(1)
        self.arguments = (
            self.arena_address,
            self.table,
            self.threads,
            self.steps,
            ctypes.c_double(CALL_SECONDS),
        )

    def use_arena(self, arena: np.ndarray) -> None:
        """Let these bytes be what calls work in; they begin at a multiple of 64."""
        self.arena = arena
        self.arena_address.value = address(arena)

    def bind(self, root: str, array: np.ndarray) -> None:
        self.arrays[root] = array
        self.table[self.slots[root]] = address(array)

    def bind_inputs(self, arrays: Sequence[np.ndarray]) -> None:
        # Inputs come first in the table.
        for slot, array in enumerate(arrays):
            self.arrays[self.input_roots[slot]] = array
            self.table[slot] = address(array)

    def run(self, steps: int = 1) -> int:
        if is_forked():
            self.threads.value = 1
        self.steps.value = steps
        return self.function(*self.arguments)


def address(array: np.ndarray) -> int:
    """Where the elements of a C-contiguous array begin."""
    try:
        # Four times as fast as array.ctypes.data, but for memory that may be written to.
        return addressof(from_buffer(array))
    except (TypeError, ValueError):
        return array.ctypes.data
