"""The tensors of a program's network by their names: views to read and write, and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import CheckpointError
from noeira.runtime.checkpoint import SHOWN, assign

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.store import Store


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
    `numpy.savez("net.npz", **program.tensors)` is a checkpoint, which `load` takes.
    """

    noun = "elements"

    def __init__(self, store: Store, buffers: Sequence[str]) -> None:
        super().__init__(store)
        self.kinds |= dict.fromkeys(buffers, "buffer")

    def load(self, values: Mapping[str, Any]) -> None:
        """Assign every tensor, as from `numpy.load("net.npz")`; what `Program.save` has written
        beside them is let be.

        Raises CheckpointError if one is missing, there is another, or a shape or dtype is another;
        then nothing is changed.
        """
        if not isinstance(values, Mapping):
            kind = f"the path {values}" if isinstance(values, (str, Path)) else repr(values)
            raise CheckpointError(
                f"tensors.load takes arrays by name, not {kind}: write load(np.load(path)), or "
                "program.restore(path) for training to go on"
            )
        assign(dict(self), values, "")
