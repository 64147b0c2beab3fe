"""What travels with a call to a device: inputs, then states, then outputs, side by side in pinned
memory and on the device, so that one copy sends and one copy fetches.
"""

from __future__ import annotations

from collections.abc import Mapping

from noeira.ir.arrays import numpy_dtype
from noeira.ir.plan import INPUT, OUTPUT, STATE
from noeira.ir.types import TensorType, padded
from noeira.runtime.device.device import Device, Memory, Pinned


class Transfer:
    """views: arrays in pinned memory by root; offsets: where each begins.

    Inputs and states are sent, states and outputs are fetched.
    """

    def __init__(self, device: Device, types: Mapping[str, TensorType]) -> None:
        self.device, self.offsets = device, dict[str, int]()
        size, ends = 0, dict[str, int]()
        for kind in (INPUT, STATE, OUTPUT):
            for root in types:
                if root.startswith(f"{kind} "):
                    self.offsets[root] = size
                    size += padded(types[root].nbytes)
            ends[kind] = size
        self.pinned, self.memory = Pinned(device, size), Memory(device, size)
        room = self.pinned.array
        self.views = {
            root: room[at : at + types[root].nbytes]
            .view(numpy_dtype(types[root].dtype))
            .reshape(types[root].shape)
            for root, at in self.offsets.items()
        }
        self.first_fetched = ends[INPUT]
        self.sent, self.fetched = room[: ends[STATE]], room[ends[INPUT] : size]

    def pointer(self, root: str) -> int:
        """Where a root begins on the device."""
        return self.memory.pointer + self.offsets[root]

    def send(self) -> None:
        """Copy inputs and states to the device."""
        if self.sent.size:
            self.device.copy_in(self.memory.pointer, self.sent)

    def fetch(self) -> None:
        """Copy states and outputs from the device."""
        if self.fetched.size:
            self.device.copy_out(self.fetched, self.memory.pointer + self.first_fetched)
