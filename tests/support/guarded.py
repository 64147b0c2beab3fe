"""Memory in which a kernel cannot go beyond its operands unseen."""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noeira.ir.arrays import is_float, numpy_dtype
from noeira.ir.graph import Value

CANARY = 64


def guarded(array: np.ndarray, alignment: int = 1) -> np.ndarray:
    """A copy that ends where memory without access begins: going beyond it ends the process.

    `alignment`: bytes that its place is a multiple of; it may then end that much earlier.
    """
    size = max(array.nbytes, 1)
    pages = -(-(size + CANARY) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    memory[:] = b"\xa5" * len(memory)
    whole = np.frombuffer(memory, "u1")
    if platform.system() == "Linux":
        end = ctypes.c_void_p(whole.ctypes.data + pages)
        assert not ctypes.CDLL(None).mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), 0)
    start = (pages - array.nbytes) // alignment * alignment
    copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def canary(array: np.ndarray) -> bytes:
    """The bytes before a guarded array."""
    return ctypes.string_at(array.ctypes.data - CANARY, CANARY)


def empty(value: Value) -> np.ndarray:
    """An array for an output, full of what no kernel gives."""
    array = np.zeros(value.type.shape, numpy_dtype(value.type.dtype))
    return array + array.dtype.type(np.nan if is_float(array) else 85)


def workspace_of(size: int, alignment: int = 1) -> np.ndarray:
    """Guarded memory for a kernel's workspace, full of NaN."""
    return guarded(np.full(-(-size // 64) * 64, 0xFF, "u1"), alignment)


@dataclass(frozen=True)
class Guarded:
    """The guarded memory of one run of a kernel; `label` is what failures call it."""

    label: str
    given: Sequence[np.ndarray]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    taken: frozenset[int]
    before: list[bytes]

    @classmethod
    def of(
        cls,
        label: str,
        arrays: Sequence[np.ndarray],
        results: Sequence[Value],
        aliases: Mapping[int, int],
        alignment: int = 1,
    ) -> Guarded:
        """`aliases`: outputs, by number, that take over the memory of an operand."""
        inputs = [guarded(array, alignment) for array in arrays]
        outputs = [guarded(empty(value), alignment) for value in results]
        for output, operand in aliases.items():
            outputs[output] = inputs[operand]
        before = [canary(array) for array in outputs]
        return cls(label, arrays, inputs, outputs, frozenset(aliases.values()), before)

    @property
    def pointers(self) -> list[int]:
        """The addresses of operands and outputs."""
        return [array.ctypes.data for array in (*self.inputs, *self.outputs)]

    def results(self) -> list[np.ndarray]:
        """The outputs after the run, which must have changed nothing else."""
        assert self.before == [canary(array) for array in self.outputs], self.label
        for index, (given, kept) in enumerate(zip(self.given, self.inputs, strict=True)):
            changed = given.tobytes() != kept.tobytes()
            assert not changed or index in self.taken, f"{self.label}: operand {index} changed"
        return [array.copy() for array in self.outputs]
