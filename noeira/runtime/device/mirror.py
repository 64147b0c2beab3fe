"""One large array of a store, and its copies on devices: which of them holds the newest elements.

People keep views of parameters, read them after later steps and write them in place, and nobody
tells the device. So an array is looked at from outside as follows. Whoever asks the store for an
array gets it as the host has it, fetched first where a device has newer elements, and may write to
it: copies on devices are then sent again before the next call. After a call, an array that somebody
still holds is fetched at once, so that what they hold is current, as it would be on the CPU. An
array that nobody holds stays where it is.

Whether somebody holds an array is told by Python's counts of references, to the array itself and to
the one that owns the bytes, which is what every view of it refers to.
"""

from __future__ import annotations

import sys
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any

from noeira.ir.types import TensorType
from noeira.runtime.device.device import Device, Memory
from noeira.runtime.store import Store, aligned_zeros

if TYPE_CHECKING:
    import numpy as np


class Copy:
    """The memory of an array on one device, whether it has the newest elements, and who uses it."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self.memory, self.valid = Memory(device, nbytes), False
        self.users = weakref.WeakSet[Any]()


class Mirror:
    """An array of the host and its copies. Used by whoever holds the lock of the store."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.current = True
        self.copies: dict[Device, Copy] = {}

    def references(self) -> tuple[int, int]:
        """How many references there are to the array, and to the owner of its bytes."""
        return sys.getrefcount(self.array), sys.getrefcount(self.array.base)

    def is_held(self) -> bool:
        """Whether anybody has the array, or a view of it, but its store and this mirror."""
        if not hasattr(sys, "getrefcount"):
            return True
        array, owner = unheld()
        now_array, now_owner = self.references()
        return now_array > array or now_owner > owner

    def read(self) -> np.ndarray:
        """The array with the newest elements, to be read before the next call."""
        if not self.current:
            device, copy = next((d, c) for d, c in self.copies.items() if c.valid)
            with device.session():
                device.copy_out(self.array, copy.memory.pointer)
                device.synchronize()
            self.current = True
        return self.array

    def taken(self) -> np.ndarray:
        """The array with the newest elements, which may be written to at any time."""
        array = self.read()
        for copy in self.copies.values():
            copy.valid = False
        return array

    def pointer(self, device: Device, user: Any) -> int:
        """Where the copy for a device begins; it is kept as long as there is a user, at least.

        Raises DeviceMemoryError.
        """
        if device not in self.copies:
            self.copies[device] = Copy(device, self.array.nbytes)
        copy = self.copies[device]
        copy.users.add(user)
        return copy.memory.pointer

    def send(self, device: Device) -> None:
        """Let the copy have the newest elements before a call."""
        copy = self.copies[device]
        if not copy.valid:
            device.copy_in(copy.memory.pointer, self.read())
            copy.valid = True

    def called(self, device: Device, updated: bool) -> None:
        """Take note that a call is over, which may have changed the elements on a device."""
        if updated:
            self.current = False
            for other, copy in self.copies.items():
                copy.valid = other is device
        if self.is_held():
            self.taken()

    def failed(self, device: Device) -> None:
        """Take note that a call was not ended: where the host has all elements, they count."""
        if self.current and device in self.copies:
            self.copies[device].valid = False

    def settle(self) -> bool:
        """Free copies that have no user any more; whether there is one left."""
        for device in [d for d, copy in self.copies.items() if not copy.users]:
            if self.copies[device].valid:
                self.read()
            self.copies.pop(device).memory.close()
        return bool(self.copies)


def mirror_of(store: Store, name: str) -> Mirror:
    """The mirror of a store's array, which the store then asks for its elements."""
    found = store.mirrors.get(name)
    if not isinstance(found, Mirror):
        found = store.mirrors[name] = Mirror(store.memory[name])
    return found


@cache
def unheld() -> tuple[int, int]:
    """The references that there are to an array that only its store and its mirror have: counted,
    because Python's versions differ in what they count beside those.
    """
    memory = {"array": aligned_zeros(TensorType("f32", (4,)))}
    return Mirror(memory["array"]).references()
