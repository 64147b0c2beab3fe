"""Instances of module types: they own the memory of the parameters, or share their network's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import CompositionError, OptionError
from noeira.ir.states import BUFFERS, PARAMS
from noeira.nn.core.init import initializer
from noeira.nn.core.owned import BufferTensor, Parameter
from noeira.nn.core.parameters import joined
from noeira.nn.core.slots import described

if TYPE_CHECKING:
    from noeira.nn.core.module import Module
    from noeira.runtime.store import Store


class Instance:
    """The half of `Module` that has memory. A child is a view of the same store at its own path.

    `copy.deepcopy` and `pickle` give an instance with memory of its own: parameters, moments and
    buffers (those of the whole network, for a child). `copy.copy` gives another name for the same
    memory.
    """

    store: Store
    path: str
    inner: dict[str, Any]

    def begin(self: Any, init: Any, seed: int, dtype: str) -> None:
        """Allocate the store of a whole network and fill it."""
        from noeira.ir.initial import begin_state
        from noeira.ir.random import check_seed
        from noeira.nn.core.tensors import tensors
        from noeira.runtime.store import Store

        rule = initializer(init)
        check_seed(seed)
        check_dtype(dtype)
        module: type[Module] = type(self)
        made = tensors(module, rule, dtype)
        self.store = Store(made.layout(PARAMS), dtype, made.layout(BUFFERS))
        self.path, self.inner = "", {}
        for state in made.states:
            array = self.store.array(state.value.name, state.value.type)
            begin_state(made.states, made.layouts, state, seed, array)

    def child(self: Any, index: int) -> Any:
        """The child instance at `index`, the same object each time."""
        name, module = type(self).children()[index]
        key = f"{index}"
        if key not in self.inner:
            made = object.__new__(module)
            made.store, made.path, made.inner = self.store, joined(self.path, name), {}
            self.inner[key] = made
        return self.inner[key]

    def parameter(self: Any, path: str) -> Parameter:
        """The parameter at a dotted path, `net.parameter("0.weight")`.

        Raises CompositionError that lists what there is.
        """
        infos = type(self).parameters()
        if path not in infos:
            raise missing(self, "parameter", path, infos)
        return Parameter(joined(self.path, path), infos[path].shape, self.store)

    def buffer(self: Any, path: str) -> BufferTensor:
        """The buffer at a dotted path. Raises CompositionError that lists what there is."""
        infos = type(self).buffers()
        if path not in infos:
            raise missing(self, "buffer", path, infos)
        return BufferTensor(joined(self.path, path), infos[path].shape, self.store)

    def __repr__(self) -> str:
        module: Any = type(self)
        place = f" at {self.path}" if self.path else ""
        count = sum(info.size for info in module.parameters().values())
        return f"<{module!r}{place}: {module.shapes()}, {count:,} parameters>"


def check_dtype(dtype: Any) -> Literal["f32", "f64"]:
    """The dtype, one that parameters can have. Raises OptionError."""
    if dtype not in ("f32", "f64"):
        raise OptionError(f"parameters are kept in f32 or f64, not {described(dtype)}{near(dtype)}")
    return dtype


def near(dtype: Any) -> str:
    """`: write dtype='f32'` for a dtype of NumPy or PyTorch, by its name or as an object."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    known = {"float32": "f32", "float64": "f64", "float": "f64", "double": "f64"}
    found = known.get(str(name).rpartition(".")[2].lower())
    return f": write dtype={found!r}" if found else ""


def missing(owner: Any, kind: str, path: str, infos: dict[str, Any]) -> CompositionError:
    """The error for a path that does not exist."""
    listed = ", ".join(list(infos)[:8]) + (", …" if len(infos) > 8 else "")
    return CompositionError(f"{type(owner)!r} has no {kind} {path!r}; it has {listed or 'none'}")
