"""A plan's C function over a table of pointers.

A call from Python is to cost little beside a step of some microseconds, so what does not change
from call to call is made before. The C function gets ctypes objects that are made once: converting
Python's numbers afresh takes ctypes longer than cffi, passing these less. A module in C would take
a third of the time, and a compiler with the headers of the very Python, which users need not have.
Addresses of users' arrays are asked for at every call: NumPy may move an array's memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from noeira.codegen.interface import entry_symbol, io_names
from noeira.errors import DeviceMemoryError
from noeira.ir.plan import Plan
from noeira.ir.types import TensorType
from noeira.runtime.entry_point import CALL_SECONDS, EntryPoint
from noeira.runtime.fork import is_forked
from noeira.runtime.store import aligned_zeros
from noeira.runtime.threads import thread_count

if TYPE_CHECKING:
    import numpy as np

addressof: Callable[[Any], int] = ctypes.addressof
from_buffer: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


class CompiledEntry(EntryPoint):
    """A plan's C function. NOEIRA_THREADS is read when this is made. Raises DeviceMemoryError."""

    def __init__(self, plan: Plan, library: ctypes.CDLL) -> None:
        self.table = (ctypes.c_void_p * max(len(io_names(plan)), 1))()
        self.slots = {name: i for i, name in enumerate(io_names(plan))}
        self.plan, self.library = plan, library
        self.arena_address = ctypes.c_void_p()
        try:
            super().__init__(plan.graph)
            self.use_arena(aligned_zeros(TensorType("u8", (max(plan.arena, 1),))))
        except DeviceMemoryError as error:
            from noeira.runtime.out_of_memory import with_largest_values

            raise with_largest_values(error, "the host", plan) from None
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

    def runs(self) -> Plan:
        return self.plan

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
