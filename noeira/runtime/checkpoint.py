"""Checkpoints: what files of noeira's call the tensors of a network and what is beside them, and
how they are written into memory, all or nothing.

A plain name is a tensor of the network: `0.weight`. What is beside the network has a %, which is in
no path: `%adam.step`, `%lr`, and `%adam.m.0.weight` for what the optimizer keeps of a parameter.
Whoever reads a file wants all tensors of the network and no others; of what is beside them it takes
what it has a place for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from noeira.errors import CheckpointError
from noeira.ir.arrays import dtype_name, in_float_dtype, overflow
from noeira.ir.graph import TRACE, State
from noeira.ir.layouts import Layout
from noeira.ir.orders import member_of
from noeira.ir.states import BUFFERS, PARAMS, is_reserved
from noeira.runtime.safetensors_header import called

if TYPE_CHECKING:
    import numpy as np

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
        yield f"{prefix}{member.name}", member_of(array, member)


def assign(
    own: Mapping[str, np.ndarray],
    given: Mapping[str, Any],
    source: str = "",
    network: str = "",
    convert: bool = False,
) -> None:
    """Write what is given into the arrays of the same names, all or nothing.

    own: what must be given; what is given from beside the network and has no place there is let be.
    source: what messages begin with, such as a path; network: the type that it is said to be of.
    convert: whether floats of another dtype are taken, to the nearest number of this one. Raises
    CheckpointError that names the first tensor that is missing, is none of the network's, or is of
    another shape or dtype, and says how many there are.
    """
    import numpy as np

    arrays, lacking, wrong = dict[str, np.ndarray](), list[str](), list[str]()
    transposed = False
    for name, room in own.items():
        if name not in given:
            lacking.append(f"lacks {name}")
            wrong += [] if name.startswith(BESIDE) else lacking[-1:]
            continue
        array = np.asarray(given[name])
        arrays[name] = in_float_dtype(array, dtype_name(room.dtype)) if convert else array
        wrong += differences(name, array, arrays[name], room)
        transposed |= array.shape != room.shape == array.shape[::-1]
    wrong += [
        f"has {called(name)}, which is none of them"
        for name in given
        if name not in own and not name.startswith(BESIDE)
    ]
    head = f"{source}: " if source else ""
    if wrong:
        they = f"; they are of {called(network)}" if network else ""
        if transposed and not network:
            they = "; PyTorch has the weights of Linear transposed: load(…, names=NameMap.of(Net))"
        first = first_of(wrong, "differences")
        raise CheckpointError(f"{head}these are not the network's tensors: it {first}{they}")
    if lacking:
        first = first_of(lacking, "states")
        raise CheckpointError(
            f"{head}this program's training cannot go on from here: it {first}; "
            "the network alone is what program.tensors.load takes"
        )
    for name, array in arrays.items():
        own[name][...] = array


def differences(name: str, given: np.ndarray, made: np.ndarray, room: np.ndarray) -> Iterator[str]:
    """What keeps an array from its place; made: what it is in the place's dtype, if it may be."""
    if (made.shape, made.dtype) != (room.shape, room.dtype):
        there = f"{room.dtype}{list(room.shape)}"
        yield f"has {name} as {given.dtype}{list(given.shape)}, not {there}"
    elif lost := overflow(given, made):
        yield f"has {name}[{lost[0]}] = {lost[1]}, and {room.dtype} has no such number"


def first_of(items: list[str], noun: str) -> str:
    """The first of what is lacking or wrong, and how many there are more."""
    more = len(items) - 1
    return items[0] + (f", and there are {more} more {noun}" if more else "")
