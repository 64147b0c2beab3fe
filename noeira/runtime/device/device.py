"""What a program needs of a device: memory, copies, and launches of a unit's kernels.

Everything is done in the order in which it was asked for, as in one CUDA stream; a device that is
`asynchronous` does it later, and `synchronize` waits for it. Operations are called inside a
`session`, which makes the device usable from the calling thread.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from noeira.codegen.cuda.arch import Arch, capability_of

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Argument:
    """One pointer that a kernel is given: what it is called, where it begins, and the bytes that
    the kernel may touch from there. A workspace that was not asked for is 0 bytes at 0.
    """

    name: str
    role: Literal["workspace", "input", "output"]
    pointer: int
    nbytes: int
    itemsize: int = 1


@dataclass(frozen=True)
class BoundLaunch:
    """One stage of a call: a kernel of the unit, its blocks, the threads of each, bytes of dynamic
    shared memory, and what it is given.

    call: the results of the call it belongs to. stage: its number there; last: nothing follows it.
    """

    kernel: str
    grid: int
    block: int
    shared: int
    arguments: tuple[Argument, ...]
    call: str = ""
    stage: int = 0
    last: bool = True

    @property
    def pointers(self) -> tuple[int, ...]:
        """What the kernel is called with."""
        return tuple(argument.pointer for argument in self.arguments)


class Memory:
    """Bytes on a device from `pointer` on, given back when this object goes or is closed."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self.nbytes = nbytes
        self.pointer, handle = device.take(max(nbytes, 1))
        self.close = weakref.finalize(self, device.give_back, handle)


class Pinned:
    """Bytes of the host that the device copies to and from without help, as `array` of u8."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self.array, handle = device.pin(max(nbytes, 1))
        self.close = weakref.finalize(self, device.unpin, handle)


class Device(ABC):
    """name: what the user knows it by; arch: what kernels are compiled for, such as `sm_90`."""

    name: str
    arch: str
    asynchronous: bool

    @abstractmethod
    def session(self) -> AbstractContextManager[None]:
        """While it is open, this thread may use the device. May be opened inside another one.

        Raises DeviceError in a process that was forked from the one that opened the device.
        """

    @abstractmethod
    def take(self, nbytes: int) -> tuple[int, Any]:
        """Memory with anything in it: where it begins, at a multiple of 64 or more, and what
        `give_back` takes. Raises DeviceMemoryError.
        """

    @abstractmethod
    def give_back(self, handle: Any) -> None:
        """Free memory; called from any thread, in or out of a session, and never raises."""

    @abstractmethod
    def pin(self, nbytes: int) -> tuple[np.ndarray, Any]:
        """Page-locked memory of the host, and what `unpin` takes."""

    @abstractmethod
    def unpin(self, handle: Any) -> None:
        """Free memory of the host, like `give_back`."""

    @abstractmethod
    def copy_in(self, pointer: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device; it must stay as it is until `synchronize`."""

    @abstractmethod
    def copy_out(self, array: np.ndarray, pointer: int) -> None:
        """Copy from the device into a contiguous array, which has it after `synchronize`."""

    @abstractmethod
    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy on the device."""

    @abstractmethod
    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Set bytes."""

    @abstractmethod
    def load(self, path: Path, arch: str = "") -> Any:
        """The built unit in a file. Raises DeviceError if this device cannot run it, which was
        built for `arch`.
        """

    def runs(self, kind: Arch) -> bool:
        """Whether machine code for a kind of GPU runs here."""
        return kind.runs_on(capability_of(self.arch))

    @abstractmethod
    def launcher(self, module: Any, launch: BoundLaunch) -> Callable[[], object]:
        """A function that launches a kernel of a unit; made once, called at every step."""

    @abstractmethod
    def record(self) -> Any:
        """A point in the order of operations."""

    @abstractmethod
    def elapsed(self, first: Any, last: Any) -> float:
        """Seconds between two points; waits for the later one."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything is done. Raises DeviceError if something failed."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""

    def error(self, error: Exception, doing: str) -> Exception:
        """What to raise for an error of the device's library; another error as it is."""
        return error
