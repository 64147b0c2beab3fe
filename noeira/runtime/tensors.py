"""The tensors of a program's network by their names: views to read and write, and files of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from noeira.errors import CheckpointError, DtypeError, OptionError
from noeira.ir.arrays import in_float_dtype, overflow
from noeira.ir.states import EMA
from noeira.ir.types import FLOATS
from noeira.runtime.checkpoint import BESIDE, assign
from noeira.runtime.interrupts import PutOff
from noeira.runtime.safetensors import read, write

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store

# Names that are printed.
SHOWN = 4


@runtime_checkable
class Names(Protocol):
    """What files of another framework call the tensors of a network, and how they lie in them:
    `noeira.nn.NameMap`.
    """

    def exported(self, own: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What a file has for the network's tensors. Raises CheckpointError."""
        ...

    def imported(
        self, own: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray], source: str
    ) -> dict[str, np.ndarray]:
        """The network's tensors out of what a file has. Raises CheckpointError."""
        ...


class Parameters(Mapping[str, Any]):
    """The parameters by dotted path: `program.params["0.weight"]` is a NumPy view, written in
    place. Assigning one writes all its elements, and refuses an array that would be rounded.
    """

    noun: ClassVar[str] = "parameters"

    def __init__(self, store: Store) -> None:
        self.store = store
        # What the store calls each, in order.
        self.kinds = {member.name: "val" for member in store.layout.members}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.store.view(self.kind(name), name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.store.assign(self.kind(name), name, value)

    def kind(self, name: str) -> str:
        """What the store calls it. Raises KeyError that says what is meant, or lists them."""
        if name not in self.kinds:
            near = get_close_matches(str(name), self.kinds, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self)}"
            raise KeyError(f"{name!r}; {hint}")
        return self.kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def __repr__(self) -> str:
        elements = sum(self[name].size for name in self)
        shapes = [f"{name} {list(self[name].shape)}" for name in self]
        more = ", …" if len(shapes) > SHOWN else ""
        return f"<{elements:,} {self.noun}: {', '.join(shapes[:SHOWN])}{more}>"


class Tensors(Parameters):
    """All that a network has learnt: the parameters, and the buffers, such as running statistics.
    `save` writes them to a file, and `load` takes them from one.

    network: the network's type as it is written.
    """

    noun = "elements"

    def __init__(self, store: Store, buffers: Sequence[str], network: str) -> None:
        super().__init__(store)
        self.kinds |= dict.fromkeys(buffers, "buffer")
        self.network = network

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        dtype: Literal["f32", "f64", "bf16", "f16"] | None = None,
        names: Names | None = None,
    ) -> None:
        """Write every tensor to a safetensors file, whole or not at all.

        dtype: what floats are written as, f32, f64, bf16 or f16, each rounded to the nearest, ties
        to even; by default as they are. names: what the file calls them, and how they lie in it.
        Raises OptionError for another dtype or other names, DtypeError for a number that it has
        not, and CheckpointError if the file cannot be written.
        """
        check_names(names)
        if dtype is not None and dtype not in FLOATS:
            raise OptionError(f"dtype must be one of {', '.join(FLOATS)}, not {dtype!r}")
        with self.store.lock:
            found = dict(self) if names is None else names.exported(self)
            if dtype is not None:
                found = {name: narrowed(name, array, dtype) for name, array in found.items()}
            write(path, found, self.network)

    def load(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        names: Names | None = None,
        averaged: bool = False,
    ) -> None:
        """Assign every tensor, from a safetensors file or from arrays by name; what `Program.save`
        has written beside them is let be.

        names: what the file calls them, and how they lie in it. averaged: take the moving averages
        of the parameters, which `Program.save` has written with `ema=`, for the parameters. Floats
        of another dtype are rounded to the nearest number of this one, ties to even, and exact if
        it is wider. Raises CheckpointError if one is missing, there is another, a shape or the kind
        of a dtype is another, or a number is none of the dtype, OptionError for other names; then
        nothing is changed.
        """
        check_names(names)
        given, network, place = source, "", ""
        if isinstance(source, (str, os.PathLike)):
            file = read(source)
            given, network, place = file.tensors, file.network, file.path
        if not isinstance(given, Mapping):
            raise CheckpointError(
                "tensors.load takes the path of a safetensors file, or arrays by name, not "
                f"{given!r}"
            )
        with PutOff(), self.store.lock:
            own = dict(self)
            if averaged:
                given = with_averages(given, names, place)
            if names is not None:
                given = {name: a for name, a in given.items() if not name.startswith(BESIDE)}
                given, network = names.imported(own, given, place), ""
            assign(own, given, place, network, convert=True)


def check_names(names: Any) -> None:
    """Raises OptionError for names that are no map of names."""
    if names is not None and (isinstance(names, type) or not isinstance(names, Names)):
        raise OptionError(
            "names is a name map, such as NameMap.of(Net) or NameMap(Net, [Row(ours, theirs), …]), "
            f"not {names!r}"
        )


def with_averages(given: Mapping[str, Any], names: Names | None, place: str) -> dict[str, Any]:
    """What is given, with the averages of the parameters for the parameters. Raises CheckpointError
    if there are none, OptionError for a file of other names.
    """
    if names is not None:
        raise OptionError("averaged=True is about files of program.save, which need no names=…")
    mark = f"{BESIDE}{EMA}."
    averages = {name.removeprefix(mark): a for name, a in given.items() if name.startswith(mark)}
    if not averages:
        raise CheckpointError(
            f"{place or 'what was given'} has no averages of the parameters: program.save writes "
            "them with those of a program that is compiled with ema=…"
        )
    return {**given, **averages}


def narrowed(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as a dtype stores them; anything else as it is. Raises DtypeError for a finite number
    that would be infinite.
    """
    made = in_float_dtype(array, dtype)
    if lost := overflow(array, made):
        raise DtypeError(f"{name}[{lost[0]}] is {lost[1]}, and {dtype} has no such number")
    return made
