"""Checkpoints: files of arrays by name, `.npz` as NumPy reads them, written whole or not at all.

A plain name is a tensor of the network: `0.weight`. What is beside the network has a %, which is in
no path: `%adam.step`, `%lr`, and `%adam.m.0.weight` for what the optimizer keeps of a parameter.
Whoever reads a file wants all tensors of the network and no others; of what is beside them it takes
what it has a place for.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.disk import replacing
from noeira.errors import CheckpointError
from noeira.ir.arrays import dtype_name, restored
from noeira.ir.graph import TRACE, State
from noeira.ir.states import BUFFERS, PARAMS, is_reserved
from noeira.ir.types import Layout

if TYPE_CHECKING:
    import numpy as np

# Names, or what is wrong with them, that are listed.
SHOWN = 4
BESIDE = "%"


def is_of_network(state: State) -> bool:
    """Whether a state is the network's own: its parameters, and the states of its modules."""
    name = state.value.name
    return name in (PARAMS, BUFFERS) or (state.by == TRACE and not is_reserved(name))


def named(
    state: State, layouts: Iterable[Layout], array: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """What a file calls the memory of a state, and views of it: of a flat one each member's."""
    mark = "" if is_of_network(state) else BESIDE
    name, layout = state.value.name, state.value.type.layout
    if layout is None:
        yield f"{mark}{name}", array
        return
    prefix = f"{mark}{name}." if mark else ""
    for member in next(one for one in layouts if one.name == layout).members:
        yield f"{prefix}{member.name}", array[member.offset : member.end].reshape(member.shape)


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file, and the folders that it is to lie in; what was there before stays until all is
    written. Raises CheckpointError if that cannot be.
    """
    from numpy.lib.format import write_array

    place = Path(path)
    if not place.name:
        raise CheckpointError(f"{os.fspath(path)!r} names no file: write one such as 'net.npz'")
    try:
        with replacing(place) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from None


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file. Raises CheckpointError if it is none, or cannot be read."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise CheckpointError(
                    f"{path} is no .npz file: program.save and np.savez write those, and noeira "
                    "run --save"
                )
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile):
        raise CheckpointError(f"{path} is no .npz file of arrays, or it is damaged") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None


def assign(own: Mapping[str, np.ndarray], given: Mapping[str, Any], source: str) -> None:
    """Write what is given into the arrays of the same names, all or nothing.

    own: what must be given; what is given from beside the network and has no place there is let be.
    source: what messages begin with, such as a path. Raises CheckpointError if one is missing, the
    network has another, or a shape or dtype is another.
    """
    import numpy as np

    arrays = {
        name: restored(np.asarray(given[name]), dtype_name(room.dtype))
        for name, room in own.items()
        if name in given
    }
    lacking = [name for name in own if name not in given]
    wrong = [f"lacks {name}" for name in lacking if not name.startswith(BESIDE)]
    wrong += [
        f"has {name}, which is none of them"
        for name in given
        if name not in own and not name.startswith(BESIDE)
    ]
    for name, array in arrays.items():
        room = own[name]
        if (array.shape, array.dtype) != (room.shape, room.dtype):
            there = f"{room.dtype}{list(room.shape)}"
            wrong.append(f"has {name} as {array.dtype}{list(array.shape)}, not {there}")
    head = f"{source}: " if source else ""
    if wrong:
        raise CheckpointError(f"{head}these are not the network's tensors: it {listed(wrong)}")
    if lacking:
        missing = listed([f"lacks {name}" for name in lacking])
        raise CheckpointError(
            f"{head}this program's training cannot go on from here: it {missing}; "
            "the network alone is what program.tensors.load takes"
        )
    for name, array in arrays.items():
        own[name][...] = array


def listed(items: Sequence[str]) -> str:
    """The first of what is lacking or wrong, and how many there are more."""
    more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return "; it ".join(items[:SHOWN]) + more
