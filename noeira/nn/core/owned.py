"""The tensors of an instance: views of the memory that its store owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from noeira.habits import refuse_attribute
from noeira.ir.states import FIRST_MOMENT, SECOND_MOMENT

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store


class Owned:
    """A tensor of an instance: views of the memory that the instance's store owns."""

    __slots__ = ("path", "shape", "store")
    kind: ClassVar[str] = "val"

    def __init__(self, path: str, shape: tuple[int, ...], store: Store) -> None:
        self.path, self.shape, self.store = path, shape, store

    @property
    def val(self) -> np.ndarray:
        """The values."""
        return self.store.view(self.kind, self.path)

    @val.setter
    def val(self, array: Any) -> None:
        self.store.assign(self.kind, self.path, array)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {list(self.shape)}>"


class BufferTensor(Owned):
    """A buffer of an instance; `val` is a view."""

    __slots__ = ()
    kind = "buffer"


class Parameter(Owned):
    """A parameter of an instance; `val`, `grd`, `m` and `v` are views."""

    __slots__ = ()

    # Type checkers know the attributes below, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError that says what to write instead."""
            refuse_attribute(self, "parameter", name)

    @property
    def grd(self) -> np.ndarray:
        """The gradient of the last step."""
        return self.store.view("grd", self.path)

    @property
    def m(self) -> np.ndarray:
        """The first moment of the optimizer that trains the network."""
        return self.store.moment(FIRST_MOMENT, self.path)

    @property
    def v(self) -> np.ndarray:
        """The second moment of the optimizer that trains the network."""
        return self.store.moment(SECOND_MOMENT, self.path)
