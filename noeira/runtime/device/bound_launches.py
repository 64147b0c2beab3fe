"""A plan as a list of launches: which kernel, of what size, with which pointers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noeira.ir.arrays import numpy_dtype
from noeira.ir.plan import ARENA, INPUT, LITERAL, OUTPUT, Call, Plan
from noeira.ir.types import ALIGNMENT, DTYPE_BYTES, DTYPES, padded
from noeira.runtime.device.device import (
    Argument,
    BoundLaunch,
    Device,
    Memory,
)

if TYPE_CHECKING:
    from noeira.ir.graph import Value

# The smallest thing that a kernel puts into its workspace, in bytes.
WORKSPACE_ITEM = 4


class Arena:
    """The arena of a plan on a device, zeroed, with its literals behind it, each at a multiple of
    64. Raises DeviceMemoryError.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        import numpy as np

        values = {v.name: v for v in plan.graph.values()}
        literals = dict.fromkeys(
            (values[place.name].type.dtype, place.owner)
            for place in plan.places
            if place.kind == LITERAL
        )
        start = padded(plan.arena)
        self.offsets = {key: start + i * ALIGNMENT for i, key in enumerate(literals)}
        self.memory = Memory(device, start + ALIGNMENT * len(literals))
        device.fill(self.memory.pointer, 0, self.memory.nbytes)
        if literals:
            room = np.zeros(ALIGNMENT * len(literals), np.uint8)
            for (dtype, text), at in self.offsets.items():
                number = DTYPES[dtype].number(text)
                one = np.array([number], numpy_dtype(dtype)).view(np.uint8)
                room[at - start : at - start + one.size] = one
            device.copy_in(self.memory.pointer + start, room)
            device.synchronize()

    @property
    def pointer(self) -> int:
        """Where it begins."""
        return self.memory.pointer

    def literal(self, dtype: str, text: str) -> int:
        """Where a literal lies."""
        return self.pointer + self.offsets[dtype, text]


def launches_of(
    plan: Plan, symbols: Sequence[str], arena: Arena, pointers: Mapping[str, int]
) -> Iterator[BoundLaunch]:
    """The launches of a step in order. symbols: the kernel of each call. pointers: where inputs,
    states and outputs begin, by root.
    """
    from noeira.codegen.cuda.launches import stage_launches

    for call, symbol in zip(plan.calls, symbols, strict=True):
        given = arguments(plan, call, arena, pointers)
        made = ", ".join(map(str, call.node.outputs))
        last = len(call.choice.stages) - 1
        for number, one in enumerate(stage_launches(call, symbol)):
            size = one.grid, one.block, one.shared
            yield BoundLaunch(one.kernel, *size, given, made, number, number == last)


def arguments(
    plan: Plan, call: Call, arena: Arena, pointers: Mapping[str, int]
) -> tuple[Argument, ...]:
    """What the kernels of a call are given: the workspace, inputs, outputs."""

    def argument(value: Value, role: Any) -> Argument:
        place, item = plan.place[value.name], DTYPE_BYTES[value.type.dtype]
        if place.kind == LITERAL:
            at = arena.literal(value.type.dtype, place.owner)
            return Argument(str(value), role, at, item, item)
        root = arena.pointer if place.root == ARENA else pointers[place.root]
        return Argument(str(value), role, root + place.offset, value.type.nbytes, item)

    size = call.choice.workspace
    at = arena.pointer + call.workspace if size else 0
    name = f"the workspace of {call.node.outputs[0]}"
    return (
        Argument(name, "workspace", at, size, WORKSPACE_ITEM),
        *(argument(v, INPUT) for v in call.node.inputs),
        *(argument(v, OUTPUT) for v in call.node.outputs),
    )
