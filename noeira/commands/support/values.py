"""The values of one run: drawn from a seed or read from files; results with their exact bits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.commands.support.files import unreadable
from noeira.errors import NoeiraError
from noeira.ir.arrays import is_float, restored
from noeira.ir.graph import TRACE, ComputeGraph, Input, State, Value
from noeira.ir.initial import begin_state
from noeira.ir.op import OPS
from noeira.ir.plan import INPUT, STATE, root_of
from noeira.ir.random import ORDER_STREAM, Distribution, fill, permutation, uniform01
from noeira.ir.states import BUFFERS, ORDER, PARAMS, is_reserved
from noeira.ir.types import computed
from noeira.runtime.arguments import checked
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint

# Input i is drawn from stream INPUT_STREAM + i of the seed.
INPUT_STREAM = 0xD0000000
# Elements of a result that are printed.
SHOWN = 8


def bind_states(entry: EntryPoint, seed: int, weights: str | None) -> None:
    """Give an entry its states as they begin, then what the file has in place of them."""
    graph = entry.graph
    arrays = {state.value.name: initial_state(graph, state, seed) for state in graph.states}
    if weights is not None:
        overwrite(graph, arrays, read_arrays(weights), weights)
    for name, array in arrays.items():
        entry.bind(root_of(STATE, name), array)


def initial_state(graph: ComputeGraph, state: State, seed: int) -> np.ndarray:
    """A state's first value, as an instance or program of that seed has it."""
    array = aligned_zeros(state.value.type)
    begin_state(graph.states, graph.layouts, state, seed, array)
    return array


def overwrite(
    graph: ComputeGraph, arrays: dict[str, np.ndarray], given: dict[str, np.ndarray], path: str
) -> None:
    """Put given values into states, by the name of a parameter or of a state. What `--save` wrote
    of another graph of the network is left: outputs, and states that only training has, such as an
    optimizer's `adam.m`.

    Raises NoeiraError for a name that is none of these, or if something of the network is missing.
    """
    places = dict(tensors(graph, arrays))
    elsewhere = {value.name for value in graph.outputs}
    for name, array in given.items():
        if name not in places:
            if name in elsewhere or is_reserved(name) or name.partition(".")[0] in OPS:
                continue
            raise NoeiraError(
                f"{path} has {name}, which is no parameter or state; "
                f"there are {', '.join(places) or 'none'}"
            )
        value, room = places[name]
        room[...] = checked(Input(value), restored(array, value.type.dtype))
    missing = [
        value.name
        for state in network_states(graph)
        for value in state.members or (state.value,)
        if not {value.name, state.value.name} & set(given)
    ]
    if missing:
        raise NoeiraError(f"{path} lacks {', '.join(missing)}")


def network_states(graph: ComputeGraph) -> list[State]:
    """The states that are the network's own: its parameters, and the states of its modules."""
    return [
        state
        for state in graph.states
        if state.value.name in (PARAMS, BUFFERS)
        or (state.by == TRACE and not is_reserved(state.value.name))
    ]


def tensors(
    graph: ComputeGraph, arrays: dict[str, np.ndarray]
) -> Iterator[tuple[str, tuple[Value, np.ndarray]]]:
    """Parameters and states by name: their value, and the memory as a view."""
    for state in graph.states:
        flat = arrays[state.value.name]
        yield state.value.name, (state.value, flat)
        if state.members:
            layout = graph.layout(state.value.type.layout or "")
            for value, m in zip(state.members, layout.members, strict=True):
                yield m.name, (value, flat[m.offset : m.end].reshape(m.shape))


def bind_inputs(entry: EntryPoint, seed: int, inputs: str | None) -> None:
    """Give an entry its inputs, from a file or drawn."""
    declared = entry.graph.inputs
    if inputs is None:
        for index, given in enumerate(declared):
            entry.bind(root_of(INPUT, given.value.name), drawn_input(given, seed, index))
        return
    arrays = read_arrays(inputs)
    names = [given.value.name for given in declared]
    if set(arrays) != set(names):
        raise NoeiraError(f"{inputs} has {', '.join(arrays)}; it must have {', '.join(names)}")
    for given in declared:
        array = aligned_zeros(given.value.type)
        array[...] = checked(given, restored(arrays[given.value.name], given.value.type.dtype))
        entry.bind(root_of(INPUT, given.value.name), array)


def drawn_input(given: Input, seed: int, index: int) -> np.ndarray:
    """An input: floats standard normal, whole numbers below their limit, an order a permutation."""
    type, stream = given.value.type, INPUT_STREAM + index
    array = aligned_zeros(type)
    if given.value.name == ORDER:
        array[...] = permutation(seed, ORDER_STREAM, type.size)
    elif type.is_float:
        normal, wide = Distribution("normal", (0.0, 1.0)), computed(type.dtype)
        array[...] = fill(normal, seed, stream, type.shape, wide)
    else:
        limit = given.limit or (2 if type.dtype == "bool" else 1)
        array[...] = (uniform01(seed, stream, type.size, "f64") * limit).reshape(type.shape)
    return array


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file. Raises NoeiraError if it is none."""
    import zipfile

    import numpy as np

    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise NoeiraError(
                    f"{path} is no .npz file: np.savez writes those, and noeira run --save"
                )
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile):
        raise NoeiraError(f"{path} is no .npz file of arrays, or it is damaged") from None
    except OSError as error:
        raise unreadable(path, error) from None


def results(entry: EntryPoint) -> dict[str, np.ndarray]:
    """What a call left: outputs and updated states, parameters under their own names; of a training
    step all states of the network.
    """
    graph = entry.graph
    found = {value.name: entry.output(value.name) for value in graph.outputs}
    arrays = {s.value.name: entry.arrays[root_of(STATE, s.value.name)] for s in graph.states}
    kept = {update.state.name for update in graph.updates}
    if PARAMS in kept:
        kept |= {state.value.name for state in network_states(graph)}
    for state in graph.states:
        if state.value.name in kept:
            members = {member.name for member in state.members} or {state.value.name}
            found |= {name: view for name, (_, view) in tensors(graph, arrays) if name in members}
    return found


def save(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Write an `.npz` file, and the folders that it is to lie in. Raises NoeiraError if that cannot
    be.
    """
    import numpy as np

    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise NoeiraError(f"{path} cannot be written: {error.strerror or error}") from None


def output_lines(entry: EntryPoint) -> Iterator[str]:
    """Every output with its exact bits; of a large one the first elements and a digest of all."""
    for value in entry.graph.outputs:
        array = entry.output(value.name)
        if not array.shape:
            yield f"{value.name} = {bits_text(array)}"
            continue
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        yield f"{value.name}: {value.type}, sha256 {digest}"
        yield from element_lines(array)


def element_lines(array: np.ndarray) -> Iterator[str]:
    """The first elements, a line each, and how many there are more."""
    import numpy as np

    indices: Iterable[tuple[int, ...]] = np.ndindex(array.shape)
    for _, index in zip(range(SHOWN), indices, strict=False):
        yield f"  [{', '.join(map(str, index))}] = {bits_text(array[index])}"
    if array.size > SHOWN:
        yield f"  … and {array.size - SHOWN:,} more"


def bits_text(value: np.ndarray) -> str:
    """A number and, for a float, its bits: `2.302585 (0x40135d8e)`."""
    import numpy as np

    scalar = np.asarray(value)
    if not is_float(scalar):
        return str(scalar[()])
    size = scalar.dtype.itemsize
    bits = int(scalar.view(f"u{size}")[()])
    digits = {2: 4, 4: 7, 8: 16}[size]
    return f"{float(scalar):.{digits}g} (0x{bits:0{2 * size}x})"
