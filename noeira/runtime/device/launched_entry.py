"""A plan on a device: its memory, what travels with a call, and steps launched ahead.

The host walks the launches of a step and runs ahead of the device. What is small travels with each
call (see `transfer`): inputs of the call, small states, outputs. So states such as `cursor` and
`bad` are the host's between calls, as they are on the CPU. Large states of a store stay on the
device (see `mirror`); data sets are sent once for each time that they are bound.

A step that is not ok must be the last one that changes anything, but it is only seen when the
device is waited for. So before several steps are launched at once, a copy of the large states they
change is put aside on the device; if one of the steps was not ok, the states are put back and the
steps up to that one are done again, which gives the same bits as stopping there. Where that copy
would be large, steps take long, and each is waited for instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from noeira.codegen.interface import io_names
from noeira.errors import DeviceError, DeviceMemoryError
from noeira.ir.plan import INPUT, OUTPUT, STATE, Plan, root_of, split_root
from noeira.ir.states import BAD
from noeira.ir.types import padded
from noeira.runtime.device.bound_launches import Arena, launches_of
from noeira.runtime.device.device import BoundLaunch, Device, Memory
from noeira.runtime.device.mirror import Mirror, mirror_of
from noeira.runtime.device.transfer import Transfer
from noeira.runtime.entry_point import CALL_SECONDS, EntryPoint
from noeira.runtime.interrupts import PutOff
from noeira.runtime.out_of_memory import with_largest_values

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store

# States of a store up to this many bytes travel with each call; so do all states of a program.
SMALL_BYTES = 4096
# Bytes of states that are put aside at most.
MOST_KEPT = 64 << 20
BAD_STATE = root_of(STATE, BAD)


class LaunchedEntry(EntryPoint):
    """A plan whose kernels a device launches.

    module: the unit that the device has loaded. symbols: the kernel of each call, in order.
    """

    def __init__(self, plan: Plan, device: Device, module: Any, symbols: Sequence[str]) -> None:
        self.plan, self.device, self.module, self.symbols = plan, device, module, tuple(symbols)
        graph = plan.graph
        given = (*(i.value for i in graph.inputs), *(s.value for s in graph.states))
        types = [value.type for value in (*given, *graph.outputs)]
        self.types = dict(zip(io_names(plan), types, strict=True))
        self.updated = {root_of(STATE, update.state.name) for update in graph.updates}
        # Roots that are not in the transfer: states of the store that are large, inputs that were
        # bound for many calls and those of them to send, and what is another entry's.
        self.mirrors: dict[str, Mirror] = {}
        self.resident: dict[str, Memory] = {}
        self.unsent: set[str] = set()
        self.taken: dict[str, tuple[LaunchedEntry, str]] = {}
        self.arena: Arena | None = None
        self.transfer: Transfer | None = None
        self.kept: Memory | None = None
        self.pointers: dict[str, int] = {}
        self.launches: list[BoundLaunch] = []
        self.begin: list[Callable[[], object]] = []
        self.is_prepared = False
        # Seconds of a step, as last measured.
        self.pace: float | None = None
        super().__init__(graph)

    def runs(self) -> Plan:
        return self.plan

    def bind(self, root: str, array: np.ndarray) -> None:
        """Let the array be the memory of a root. An input is sent before the next call, and again
        only when it is bound again; what is small is copied from and to its array at each call.
        """
        self.arrays[root] = array
        if split_root(root)[0] == INPUT:
            self.is_prepared &= root in self.resident
            self.unsent.add(root)
            self.taken.pop(root, None)
        elif self.mirrors.pop(root, None) is not None:
            self.is_prepared = False

    def bind_state(
        self, name: str, array: np.ndarray, store: Store | None = None, stored: str = ""
    ) -> None:
        root = root_of(STATE, name)
        if store is None or array.nbytes <= SMALL_BYTES:
            self.bind(root, array)
            return
        # Not among the arrays: a reference from here would count as somebody's who holds it.
        self.arrays.pop(root, None)
        self.mirrors[root] = mirror_of(store, stored or name)
        self.is_prepared = False

    def bind_inputs(self, arrays: Sequence[np.ndarray]) -> None:
        for root, array in zip(self.input_roots, arrays, strict=True):
            self.arrays[root] = array
        if self.resident or self.taken or self.unsent:
            self.resident.clear()
            self.taken.clear()
            self.unsent.clear()
            self.is_prepared = False

    def take_over(self, root: str, other: EntryPoint, other_root: str) -> None:
        if not isinstance(other, LaunchedEntry) or other.device is not self.device:
            super().take_over(root, other, other_root)
            return
        self.arrays[root] = other.arrays[other_root]
        if self.taken.get(root) != (other, other_root):
            self.resident.pop(root, None)
            self.unsent.discard(root)
            self.taken[root] = other, other_root
            self.is_prepared = False

    def given(self) -> dict[str, np.ndarray]:
        states = {split_root(root)[1]: mirror.read() for root, mirror in self.mirrors.items()}
        return super().given() | states

    def run(self, steps: int = 1) -> int:
        with PutOff(), self.device.session():
            try:
                self.prepare()
                self.send()
                done = self.step_by_step(steps)
            except DeviceMemoryError as error:
                raise with_largest_values(error, self.device.name, self.plan) from None
            except DeviceError:
                self.forget()
                raise
            self.receive()
        return done

    def prepare(self) -> None:
        """Make memory and launches, or make them anew for what has changed."""
        for other, _ in self.taken.values():
            other.prepare()
        moved = any(self.pointers.get(root) != o.pointers[r] for root, (o, r) in self.taken.items())
        if self.is_prepared and not moved:
            return
        for root in self.unsent - self.resident.keys():
            self.resident[root] = Memory(self.device, self.types[root].nbytes)
        elsewhere = self.resident.keys() | self.taken.keys() | self.mirrors.keys()
        types = {root: type for root, type in self.types.items() if root not in elsewhere}
        if self.transfer is None or self.transfer.offsets.keys() != types.keys():
            self.transfer = Transfer(self.device, types)
        self.arena = self.arena or Arena(self.plan, self.device)
        self.kept = None
        self.pointers = {
            **{root: self.transfer.pointer(root) for root in types},
            **{root: memory.pointer for root, memory in self.resident.items()},
            **{root: other.pointers[name] for root, (other, name) in self.taken.items()},
            **{root: m.pointer(self.device, self) for root, m in self.mirrors.items()},
        }
        self.launches = [*launches_of(self.plan, self.symbols, self.arena, self.pointers)]
        self.begin = [self.device.launcher(self.module, launch) for launch in self.launches]
        self.is_prepared = True

    def ready_transfer(self) -> Transfer:
        """The transfer, which there is once all is prepared."""
        assert self.transfer is not None
        return self.transfer

    def send(self) -> None:
        """Send what is not yet on the device."""
        transfer = self.ready_transfer()
        for root, view in transfer.views.items():
            if not root.startswith(OUTPUT):
                view[...] = self.arrays[root]
        transfer.send()
        self.send_resident()
        for mirror in self.mirrors.values():
            mirror.send(self.device)

    def send_resident(self) -> None:
        """Send the inputs that were bound for many calls, its own and those it has taken over."""
        for root in self.unsent:
            self.device.copy_in(self.resident[root].pointer, self.arrays[root])
        self.unsent.clear()
        for other, _ in self.taken.values():
            other.send_resident()

    def receive(self) -> None:
        """Give the host what the last step left in the transfer, and what somebody holds."""
        for root, view in self.ready_transfer().views.items():
            if root in self.updated or root.startswith(OUTPUT):
                self.arrays[root][...] = view
        for root, mirror in self.mirrors.items():
            mirror.called(self.device, root in self.updated)

    def forget(self) -> None:
        """After a failure: what the host has is newer than what a step that was not ended left."""
        for root in self.changing():
            self.mirrors[root].failed(self.device)

    def step_by_step(self, steps: int) -> int:
        """Up to `steps` steps for about CALL_SECONDS, none after one that was not ok; gives how
        many. The transfer is then in pinned memory as the last one left it.
        """
        bad = self.ready_transfer().views.get(BAD_STATE)
        ahead = steps > 1 and self.device.asynchronous and (bad is None or self.put_aside())
        done, now = 0, time.perf_counter()
        end = now + CALL_SECONDS
        while done < steps and (now < end or not done):
            count = 1
            if ahead and self.pace:
                count = min(steps - done, max(1, int((end - now) / self.pace)))
            self.launch(count)
            done, before, now = done + count, now, time.perf_counter()
            self.pace = (now - before) / count
            if bad is not None and bad[()] >= 0:
                return done if count == 1 else self.again(done - count, done)
        return done

    def launch(self, count: int) -> None:
        """Launch so many steps, wait for them, and have the transfer in pinned memory."""
        begun = 0
        try:
            for _ in range(count):
                begun = 0
                for begin in self.begin:
                    begin()
                    begun += 1
        except Exception as error:
            name = self.launches[begun].kernel
            raise self.device.error(error, f"the launch of {name}") from None
        self.ready_transfer().fetch()
        self.device.synchronize()

    def again(self, good: int, most: int) -> int:
        """Begin the call once more, whose first `good` steps were ok, and stop right after the one
        of the first `most` that was not; gives how many there were.
        """
        transfer = self.ready_transfer()
        for pointer, aside, nbytes in self.kept_parts():
            self.device.copy(pointer, aside, nbytes)
        for root in self.updated & transfer.views.keys():
            transfer.views[root][...] = self.arrays[root]
        transfer.send()
        if good:
            self.launch(good)
        for done in range(good + 1, most):
            self.launch(1)
            if transfer.views[BAD_STATE][()] >= 0:
                return done
        self.launch(1)
        return most

    def put_aside(self) -> bool:
        """Put the large states aside that steps change; False if they are too large for that."""
        size = sum(padded(self.types[root].nbytes) for root in self.changing())
        if size > MOST_KEPT:
            return False
        if self.kept is None:
            try:
                self.kept = Memory(self.device, size)
            except DeviceMemoryError:
                return False
        for pointer, aside, nbytes in self.kept_parts():
            self.device.copy(aside, pointer, nbytes)
        return True

    def changing(self) -> list[str]:
        """The states outside the transfer that a step changes."""
        return [root for root in self.mirrors if root in self.updated]

    def kept_parts(self) -> Iterator[tuple[int, int, int]]:
        """For each of them: where it is, where it is put aside, and its bytes."""
        assert self.kept is not None
        aside = self.kept.pointer
        for root in self.changing():
            nbytes = self.types[root].nbytes
            yield self.pointers[root], aside, nbytes
            aside += padded(nbytes)
