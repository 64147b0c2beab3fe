"""Instances of module types: they own the memory of the parameters, or share their network's."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from noeira.errors import CompositionError, OptionError
from noeira.habits import instead
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
    inner: dict[int, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Instance.__annotations__:
            raise AttributeError(not_set(self, name))
        object.__setattr__(self, name, value)

    # Type checkers know the attributes that a class says it has, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A child by its name, or what one without a name has: its tensors and its children.

            Raises AttributeError that lists the children.
            """
            module: type[Module] = type(self)
            if tensor := module.own_params.get(name) or module.own_buffers.get(name):
                raise tensor.absent(module)
            children = () if name.startswith("_") else module.inside
            for index, (given, child) in enumerate(children):
                if given == name:
                    return self.child(index)
                if not given and name in names_inside(child):
                    return getattr(self.child(index), name)
            if advice := instead("network", name):
                raise AttributeError(f"{module!r} has no attribute {name!r}{advice}")
            named = [given for given, _ in children if given.isidentifier()]
            inside = f"; its modules are {', '.join(named)}" if named else ""
            raise AttributeError(f"{module!r} has no attribute {name!r}{inside}")

    def __call__(self: Any, *args: Any, **options: Any) -> NoReturn:
        """An instance is memory. Raises CompositionError that says how a network is run."""
        module: type[Module] = type(self)
        if module.role == "layer":
            how = "a network runs once it is compiled: write noeira.compile(net).forward(x)"
        else:
            kind = repr(module)
            option = f"loss={kind}" if module.role == "loss" else f"loss=…, metrics=[{kind}]"
            how = f"it is compiled with a network: noeira.compile(net, {option})"
        raise CompositionError(f"an instance of {module!r} is not called: {how}")

    def begin(self: Any, init: Any, seed: int, dtype: str) -> None:
        """Allocate the store of a whole network and fill it."""
        from noeira.ir.initial import begin_state
        from noeira.ir.random import check_seed
        from noeira.nn.core.states import network_states
        from noeira.runtime.store import Store

        rule = initializer(init)
        check_seed(seed)
        check_dtype(dtype)
        module: type[Module] = type(self)
        made = network_states(module, rule, dtype)
        self.store = Store(made.layout(PARAMS), dtype, made.layout(BUFFERS))
        self.path, self.inner = "", {}
        for state in made.states:
            array = self.store.array(state.value.name, state.value.type)
            begin_state(made.states, made.layouts, state, seed, array)

    def child(self: Any, place: int | str) -> Any:
        """The child instance of a name, `block.child("attention")`, or at an index; the same object
        each time.

        Raises CompositionError that lists what there is.
        """
        children = type(self).inside
        names = [name for name, _ in children]
        known: list[Any] = names if isinstance(place, str) else [*range(len(names))]
        if place not in known:
            raise missing(self, "module", place, dict(children))
        index = known.index(place)
        if index not in self.inner:
            made = object.__new__(children[index][1])
            made.store, made.path, made.inner = self.store, joined(self.path, names[index]), {}
            self.inner[index] = made
        return self.inner[index]

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
    if not isinstance(dtype, str) or dtype not in ("f32", "f64"):
        raise OptionError(f"parameters are kept in f32 or f64, not {described(dtype)}{near(dtype)}")
    return dtype


def near(dtype: Any) -> str:
    """`: write dtype='f32'` for a dtype of NumPy or PyTorch, by its name or as an object."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    known = {"float32": "f32", "float64": "f64", "float": "f64", "double": "f64"}
    found = known.get(str(name).rpartition(".")[2].lower())
    return f": write dtype={found!r}" if found else ""


def names_inside(module: type[Module]) -> set[str]:
    """What an instance has by name, beside its own methods: tensors and children."""
    own = {*module.own_params, *module.own_buffers}
    for name, child in module.inside:
        own |= {name} if name else names_inside(child)
    return own


def not_set(owner: Any, name: str) -> str:
    """What is said of setting an attribute."""
    module: type[Module] = type(owner)
    known = list(dict.fromkeys((*module.parameters(), *module.buffers())))
    if name in known:
        return f"{name} is changed in place: write .{name}.val[...] = …"
    meant = get_close_matches(name, known, n=1)
    hint = f"; did you mean .{meant[0]}.val[...] = …?" if meant else ""
    return (
        f"{module!r} has no attribute {name!r} to set: an instance has the tensors that its type "
        f"declares{hint}"
    )


def missing(owner: Any, kind: str, path: Any, infos: Mapping[str, Any]) -> CompositionError:
    """The error for a path that does not exist."""
    listed = ", ".join(list(infos)[:8]) + (", …" if len(infos) > 8 else "")
    return CompositionError(f"{type(owner)!r} has no {kind} {path!r}; it has {listed or 'none'}")
