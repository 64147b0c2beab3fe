"""The values of one run: drawn from a seed or read from files; results with their exact bits."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.commands.support.files import unreadable
from noeira.errors import DataError, NoeiraError
from noeira.ir.arrays import is_float, restored
from noeira.ir.graph import ComputeGraph, Input, State
from noeira.ir.initial import begin_state
from noeira.ir.plan import INPUT, STATE, root_of
from noeira.ir.random import ORDER_STREAM, Distribution, fill, permutation, uniform01
from noeira.ir.states import ORDER, PARAMS
from noeira.ir.types import computed
from noeira.runtime.arguments import checked
from noeira.runtime.checkpoint import BESIDE, assign, named
from noeira.runtime.safetensors import read
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint

# Input i is drawn from stream INPUT_STREAM + i of the seed.
INPUT_STREAM = 0xD0000000
# Elements of a result that are printed.
SHOWN = 8


def bind_states(entry: EntryPoint, seed: int, weights: str | None) -> None:
    """Give an entry its states as they begin, then what a checkpoint has in place of them: all
    tensors of the network, and what it has of other states. Raises CheckpointError.
    """
    graph = entry.graph
    arrays = {state.value.name: initial_state(graph, state, seed) for state in graph.states}
    if weights is not None:
        check_there(weights)
        file = read(weights)
        places = named_states(graph, arrays)
        wanted = {n: a for n, a in places.items() if n in file.tensors or not n.startswith(BESIDE)}
        assign(wanted, file.tensors, weights, file.network)
    for name, array in arrays.items():
        entry.bind(root_of(STATE, name), array)


def initial_state(graph: ComputeGraph, state: State, seed: int) -> np.ndarray:
    """A state's first value, as an instance or program of that seed has it."""
    array = aligned_zeros(state.value.type)
    begin_state(graph.states, graph.layouts, state, seed, array)
    return array


def named_states(
    graph: ComputeGraph, arrays: Mapping[str, np.ndarray], kept: Collection[State] | None = None
) -> dict[str, np.ndarray]:
    """The states of a graph, or some of them, by the names that checkpoints give them, as views."""
    found: dict[str, np.ndarray] = {}
    for state in graph.states if kept is None else kept:
        found |= named(state, graph.layouts, arrays[state.value.name])
    return found


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


def check_there(path: str) -> None:
    """Raises UsageError if there is no such file."""
    if not Path(path).exists():
        raise unreadable(path, FileNotFoundError())


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file, which can be of any kind. Raises UsageError if there is none,
    DataError if it is another kind of file.
    """
    import numpy as np

    check_there(path)
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path} is no .npz file: numpy.savez writes those")
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile):
        raise DataError(f"{path} is no .npz file of arrays, or it is damaged") from None
    except OSError as error:
        raise unreadable(path, error) from None


def results(entry: EntryPoint) -> dict[str, np.ndarray]:
    """What a call left, by the names of checkpoints: outputs, which are beside the network, and
    updated states; of a training step all states.
    """
    graph = entry.graph
    updated = {update.state.name for update in graph.updates}
    kept = [s for s in graph.states if s.value.name in updated or PARAMS in updated]
    arrays = {state.value.name: entry.arrays[root_of(STATE, state.value.name)] for state in kept}
    outputs = {f"{BESIDE}{value.name}": entry.output(value.name) for value in graph.outputs}
    return outputs | named_states(graph, arrays, kept)


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
