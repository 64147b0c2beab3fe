"""The memory of one module instance: flat, aligned arrays that programs and people see the same
bytes of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from noeira.errors import ShapeError
from noeira.ir.arrays import dtype_name, numpy_dtype
from noeira.ir.states import FIRST_MOMENT, GRADIENTS, PARAMS, SECOND_MOMENT
from noeira.ir.types import ALIGNMENT, Layout, TensorType
from noeira.runtime.arguments import elements
from noeira.runtime.fork import Lock

if TYPE_CHECKING:
    import numpy as np

# What a parameter owns, and the state that holds it for all parameters.
KINDS = {"val": PARAMS, "grd": GRADIENTS, "m": FIRST_MOMENT, "v": SECOND_MOMENT}


def aligned_zeros(type: TensorType) -> np.ndarray:
    """A zeroed array that begins at a multiple of 64 bytes."""
    import numpy as np

    room = np.zeros(type.nbytes + ALIGNMENT, np.uint8)
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
    """Arrays by the name of their state, made zero on first use; parameters are views of flat ones.

    One lock: a call that works on the memory holds it, so calls from other threads wait. A copy, or
    what comes out of a pickle, has memory and a lock of its own.

    A device may have newer elements of a large array than the host: `memory` is the host's side,
    and whoever wants the elements asks for them by `array`, `view` or `arrays`. What runs on a
    device leaves a mirror of each such array in `mirrors`.
    """

    def __init__(
        self, layout: Layout, states: dict[str, TensorType] | None = None, dtype: str = "f32"
    ) -> None:
        self.layout, self.dtype = layout, dtype
        self.lock = Lock()
        self.memory: dict[str, np.ndarray] = {}
        self.mirrors: dict[str, Mirror] = {}
        for name, type in (states or {}).items():
            self.array(name, type)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock; the elements as they are between two calls."""
        with self.lock:
            for mirror in self.mirrors.values():
                mirror.read()
            arrays = {name: array.copy() for name, array in self.memory.items()}
        return {"layout": self.layout, "dtype": self.dtype, "arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.layout, self.dtype, self.lock = state["layout"], state["dtype"], Lock()
        self.memory = {name: aligned_copy(array) for name, array in state["arrays"].items()}
        self.mirrors = {}

    def flat_type(self) -> TensorType:
        """The type of parameters, gradients and moments."""
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
        if name not in self.mirrors:
            return self.memory[name]
        with self.lock:
            return self.mirrors[name].taken()

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays with their newest elements, to be read and written."""
        if not self.mirrors:
            return self.memory
        with self.lock:
            return {name: self.current(name) for name in self.memory}

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
        """A parameter's `val`, `grd`, `m` or `v`; or, of kind `state`, the state of that name."""
        if kind == "state":
            return self.current(name)
        flat = self.array(KINDS[kind], self.flat_type())
        member = self.layout.member(name)
        return flat[member.offset : member.end].reshape(member.shape)
