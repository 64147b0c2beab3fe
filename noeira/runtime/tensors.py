"""The tensors of a program's network by their names: views to read and write, and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import CheckpointError
from noeira.ir.arrays import dtype_name, restored

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store

# Tensors, or what is wrong with them, that are listed.
SHOWN = 4


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
        """What the store calls it. Raises KeyError that lists what there is."""
        if name not in self.kinds:
            raise KeyError(f"{name!r}; there are {', '.join(self)}")
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
    `numpy.savez("net.npz", **program.tensors)` is a checkpoint, which `load` takes.
    """

    noun = "elements"

    def __init__(self, store: Store, buffers: Sequence[str]) -> None:
        super().__init__(store)
        self.kinds |= dict.fromkeys(buffers, "buffer")

    def load(self, values: Mapping[str, Any]) -> None:
        """Assign every tensor, as from `numpy.load("net.npz")`.

        Raises CheckpointError if one is missing, there is another, or a shape or dtype is another;
        then nothing is changed.
        """
        import numpy as np

        wrong = [f"lacks {name}" for name in self if name not in values]
        wrong += [f"has {name}, which is none of them" for name in values if name not in self]
        arrays = {
            name: restored(np.asarray(values[name]), dtype_name(own.dtype))
            for name, own in self.items()
            if name in values
        }
        for name, array in arrays.items():
            own = self[name]
            if (array.shape, array.dtype) != (own.shape, own.dtype):
                there = f"{own.dtype}{list(own.shape)}"
                wrong.append(f"has {name} as {array.dtype}{list(array.shape)}, not {there}")
        if wrong:
            more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            listed = "; it ".join(wrong[:SHOWN])
            raise CheckpointError(f"these are not the network's tensors: it {listed}{more}")
        for name, array in arrays.items():
            self[name] = array
