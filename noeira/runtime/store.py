"""The memory of one module instance: flat, aligned arrays that programs and people see the same
bytes of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from noeira.errors import NoeiraError, ShapeError
from noeira.ir.arrays import dtype_name, numpy_dtype
from noeira.ir.layouts import Layout
from noeira.ir.orders import member_of
from noeira.ir.states import BUFFERS, GRADIENTS, PARAMS, optimizer_state
from noeira.ir.types import ALIGNMENT, TensorType
from noeira.runtime.arguments import elements
from noeira.runtime.fork import Lock

if TYPE_CHECKING:
    import numpy as np

# What a parameter owns, and the state that holds it for all parameters.
KINDS = {"val": PARAMS, "grd": GRADIENTS}
NO_BUFFERS = Layout(BUFFERS, 0, ())


def aligned_zeros(type: TensorType) -> np.ndarray:
    """A zeroed array that begins at a multiple of 64 bytes. Raises DeviceMemoryError."""
    import numpy as np

    try:
        room = np.zeros(type.nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, OverflowError, ValueError):
        from noeira.runtime.out_of_memory import out_of_host_memory

        raise out_of_host_memory(type.nbytes) from None
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + type.nbytes].view(numpy_dtype(type.dtype)).reshape(type.shape)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """The same elements in memory that begins at a multiple of 64 bytes."""
    made = aligned_zeros(TensorType(dtype_name(array.dtype), array.shape))
    made[...] = array
    return made


class Mirror(Protocol):
    """What knows of the copies that devices have of an array."""

    def read(self) -> np.ndarray:
        """The array with the newest elements, to be read before the next call."""
        ...

    def taken(self) -> np.ndarray:
        """The array with the newest elements, which may be written to at any time."""
        ...

    def settle(self) -> bool:
        """Free copies that have no user any more; whether there is one left."""
        ...


class Store:
    """Arrays by the name of their state, made zero on first use; parameters and most states of
    modules are views of flat ones.

    layout, buffers: of the parameters, and of the buffers of modules that are parts of %buffers.
    One lock: a call that works on the memory holds it, so calls from other threads wait. A copy, or
    what comes out of a pickle, has memory and a lock of its own.

    A device may have newer elements of a large array than the host: `memory` is the host's side,
    and whoever wants the elements asks for them by `array`, `view` or `arrays`. What runs on a
    device leaves a mirror of each such array in `mirrors`.

    averaged: whether the parameters and their moving averages are in each other's place. changes:
    counts what may change parameters or buffers: that these arrays are given to somebody, and
    that an entry of a program is called that updates them.
    """

    def __init__(self, layout: Layout, dtype: str = "f32", buffers: Layout = NO_BUFFERS) -> None:
        self.layout, self.buffers, self.dtype = layout, buffers, dtype
        self.lock, self.averaged, self.changes = Lock(), False, 0
        self.memory: dict[str, np.ndarray] = {}
        self.mirrors: dict[str, Mirror] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock; the elements as they are between two calls."""
        with self.lock:
            for mirror in self.mirrors.values():
                mirror.read()
            arrays = {name: array.copy() for name, array in self.memory.items()}
        known = {"layout": self.layout, "buffers": self.buffers, "dtype": self.dtype}
        return {**known, "arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.layout, self.buffers, self.dtype = state["layout"], state["buffers"], state["dtype"]
        self.lock, self.averaged, self.changes = Lock(), False, 0
        self.memory = {name: aligned_copy(array) for name, array in state["arrays"].items()}
        self.mirrors = {}

    def flat_type(self) -> TensorType:
        """The type of parameters and, unless a program says otherwise, of gradients."""
        return TensorType(self.dtype, (max(self.layout.size, 1),), self.layout.name)

    def array(self, name: str, type: TensorType) -> np.ndarray:
        """The array of a state. Raises ShapeError if it is there with another type."""
        if name not in self.memory:
            self.memory[name] = aligned_zeros(type)
        found = self.current(name)
        if found.shape != type.shape or found.dtype != numpy_dtype(type.dtype):
            raise ShapeError(
                f"state {name} is {found.dtype}{list(found.shape)} in this store, not {type}"
            )
        return found

    def current(self, name: str) -> np.ndarray:
        """The array of a state with its newest elements, to be read and written."""
        self.changes += name in (PARAMS, BUFFERS)
        if name not in self.mirrors:
            return self.memory[name]
        with self.lock:
            return self.mirrors[name].taken()

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays with their newest elements, to be read and written."""
        self.changes += 1
        if not self.mirrors:
            return self.memory
        with self.lock:
            return {name: self.current(name) for name in self.memory}

    def exchange(self, one: str, other: str) -> None:
        """Exchange the elements of two arrays of one type."""
        with self.lock:
            first, second = self.current(one), self.current(other)
            kept = first.copy()
            first[...] = second
            second[...] = kept

    def settle(self) -> None:
        """Free the memory of devices that no entry of a program uses any more."""
        with self.lock:
            self.mirrors = {name: m for name, m in self.mirrors.items() if m.settle()}

    def assign(self, kind: str, name: str, value: Any) -> None:
        """Write all elements of what `view` gives. Raises ShapeError, or DtypeError for an array
        whose numbers would be rounded.
        """
        view = self.view(kind, name)
        view[...] = elements(name, value, view)

    def view(self, kind: str, name: str) -> np.ndarray:
        """A parameter's `val` or `grd`; or, of kind `buffer`, a buffer."""
        if kind != "buffer":
            state = KINDS[kind]
            there = state in self.memory
            flat = self.current(state) if there else self.array(state, self.flat_type())
            return member_of(flat, self.layout.member(name))
        if name in self.memory:
            return self.current(name)
        return member_of(self.current(BUFFERS), self.buffers.member(name))

    def moment(self, moment: str, name: str) -> np.ndarray:
        """What the optimizer of the network keeps of a parameter under the name `moment`.

        Raises NoeiraError unless just one optimizer of the instance's programs keeps such a thing.
        """
        found = [
            state
            for state, array in self.memory.items()
            if state == optimizer_state(state.partition(".")[0], moment)
            and array.shape == self.flat_type().shape
        ]
        if len(found) != 1:
            those = " and ".join(found) or f"no optimizer that keeps {moment}"
            raise NoeiraError(
                f"{moment} of {name}: the programs of this network have {those}; "
                f"there must be one: compile(net, loss=…, optimizer=…)"
            )
        return member_of(self.current(found[0]), self.layout.member(name))
