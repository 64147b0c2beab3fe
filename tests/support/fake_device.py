"""A device for tests: memory at addresses of its own, kernels that are the ops' references, and
nothing done before somebody waits for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from noeira.errors import DeviceError
from noeira.ir.arrays import numpy_dtype
from noeira.ir.entry import Entry
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.plan import Choice, Plan, Stage
from noeira.ir.types import TensorType
from noeira.planning.memory import make_plan
from noeira.runtime.built_unit import BuiltUnit
from noeira.runtime.device.device import BoundLaunch, Device
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.out_of_memory import out_of_memory

Operation = tuple[str, int]


class FakeDevice(Device):
    """done: every operation with its bytes, in order. total: bytes it has. fails: the number of the
    launch that fails, from now on.
    """

    name, arch = "a fake device", "sm_00"

    def __init__(self, asynchronous: bool = True, total: int = 1 << 30) -> None:
        self.asynchronous, self.total = asynchronous, total
        self.allocations: dict[int, np.ndarray] = {}
        self.next, self.sessions, self.fails = 1 << 40, 0, -1
        self.queue: list[Callable[[], None]] = []
        self.done: list[Operation] = []

    @contextmanager
    def session(self) -> Iterator[None]:
        self.sessions += 1
        try:
            yield
        finally:
            self.sessions -= 1

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return sum(room.nbytes for room in self.allocations.values())

    def take(self, nbytes: int) -> tuple[int, Any]:
        if self.used + nbytes > self.total:
            raise out_of_memory(self.name, nbytes, *self.memory())
        pointer = self.next
        self.next += -(-nbytes // 256) * 256 + 256
        self.allocations[pointer] = np.full(nbytes, 0xFF, np.uint8)
        return pointer, pointer

    def give_back(self, handle: Any) -> None:
        self.synchronize()
        del self.allocations[handle]

    def pin(self, nbytes: int) -> tuple[np.ndarray, Any]:
        return np.full(nbytes, 0xAA, np.uint8), None

    def unpin(self, handle: Any) -> None:
        """Nothing."""

    def at(self, pointer: int, nbytes: int) -> np.ndarray:
        """The bytes at an address. Fails for bytes that are nobody's."""
        starts = sorted(self.allocations)
        index = bisect_right(starts, pointer) - 1
        assert index >= 0, f"no memory at {pointer}"
        offset = pointer - starts[index]
        assert offset + nbytes <= self.allocations[starts[index]].nbytes, "beyond an allocation"
        return self.allocations[starts[index]][offset : offset + nbytes]

    def later(self, what: str, nbytes: int, work: Callable[[], None]) -> None:
        """Do something in its turn."""
        assert self.sessions, "outside a session"
        self.done.append((what, nbytes))
        self.queue.append(work)
        if not self.asynchronous:
            self.synchronize()

    def copy_in(self, pointer: int, array: np.ndarray) -> None:
        def work() -> None:
            self.at(pointer, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)

        self.later("in", array.nbytes, work)

    def copy_out(self, array: np.ndarray, pointer: int) -> None:
        def work() -> None:
            array.reshape(-1).view(np.uint8)[:] = self.at(pointer, array.nbytes)

        self.later("out", array.nbytes, work)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        def work() -> None:
            self.at(to, nbytes)[:] = self.at(source, nbytes)

        self.later("copy", nbytes, work)

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        self.later("fill", nbytes, lambda: self.at(pointer, nbytes).fill(byte))

    def load(self, path: Path, arch: str = "") -> Any:
        raise NotImplementedError

    def launcher(self, module: Any, launch: BoundLaunch) -> Callable[[], object]:
        def work() -> None:
            module[launch.kernel](self, launch)

        def begin() -> None:
            if self.fails == 0:
                raise DeviceError("the launch failed")
            self.fails -= 1
            self.later(launch.kernel, 0, work)

        return begin

    def record(self) -> Any:
        return len(self.done)

    def elapsed(self, first: Any, last: Any) -> float:
        return float(last - first)

    def synchronize(self) -> None:
        self.done.append(("wait", 0))
        queue, self.queue = self.queue, []
        for work in queue:
            work()

    def memory(self) -> tuple[int, int]:
        return self.total - self.used, self.total


def choose(node: Node) -> Choice:
    """One stage, or for sums of rows two that share a workspace."""
    options = (("grid", 2), ("block", 32))
    if node.op.kind == "row":
        return Choice((Stage("rows", (*options, ("shared", 64))), Stage("total", options)), 64)
    return Choice((Stage("map", options),))


def kernels(plan: Plan) -> tuple[list[str], dict[str, Callable[[FakeDevice, BoundLaunch], None]]]:
    """A symbol for each call, and what is launched under its names."""
    symbols, found = list[str](), dict[str, Callable[[FakeDevice, BoundLaunch], None]]()
    for number, call in enumerate(plan.calls):
        symbols.append(f"k{number:02}")
        if len(call.choice.stages) == 1:
            found[symbols[-1]] = reference(call.node)
        else:
            found[f"{symbols[-1]}_rows"] = mark
            found[f"{symbols[-1]}_total"] = reference(call.node)
    return symbols, found


def mark(device: FakeDevice, launch: BoundLaunch) -> None:
    """A first stage: leaves its mark in the workspace."""
    assert (launch.stage, launch.last, launch.shared) == (0, False, 64)
    device.at(launch.arguments[0].pointer, 64)[:] = 7


def reference(node: Node) -> Callable[[FakeDevice, BoundLaunch], None]:
    """The kernel of a node that is its reference."""

    def work(device: FakeDevice, launch: BoundLaunch) -> None:
        workspace, *operands = launch.arguments
        if launch.stage:
            assert (device.at(workspace.pointer, 64) == 7).all()
        else:
            assert (workspace.pointer, workspace.nbytes, launch.last) == (0, 0, True)
        assert all(operand.pointer % 64 == 0 or operand.nbytes < 64 for operand in operands)
        values = dict[str, np.ndarray]()
        for value, operand in zip(node.inputs, operands, strict=False):
            values[value.name] = typed(device.at(operand.pointer, operand.nbytes), value.type)
        with np.errstate(all="ignore"):
            for part in node.parts:
                results = part.op.reference(
                    part.attrs, *part.arguments([values[v.name] for v in part.inputs])
                )
                values.update(zip([v.name for v in part.outputs], results, strict=True))
        for value, operand in zip(node.outputs, operands[len(node.inputs) :], strict=True):
            room = device.at(operand.pointer, operand.nbytes)
            room[:] = np.frombuffer(np.asarray(values[value.name]).tobytes(), np.uint8)

    return work


def typed(room: np.ndarray, type: TensorType) -> np.ndarray:
    """A copy of bytes as an array; of a literal, one element."""
    array = room.copy().view(numpy_dtype(type.dtype))
    return array.reshape(type.shape) if array.size == type.size else array


def launched_unit(device: FakeDevice) -> Callable[..., BuiltUnit]:
    """What makes, in place of the reference, a unit of graphs whose entries the device launches."""

    def unit(self: object, declared: Sequence[Entry], graphs: Sequence[ComputeGraph]) -> BuiltUnit:
        plans = [make_plan(graph, choose, "fake") for graph in graphs]
        entries = {
            entry.name: LaunchedEntry(plan, device, kernels(plan)[1], kernels(plan)[0])
            for entry, plan in zip(declared, plans, strict=True)
        }
        return BuiltUnit(tuple(declared), dict(entries))

    return unit
