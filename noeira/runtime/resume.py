"""What a program's training needs to go on where it stopped: written to a file, and read back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from noeira.errors import CheckpointError
from noeira.ir.states import COUNTER, CURSOR, SEED, is_of_program, outlives
from noeira.runtime.checkpoint import BESIDE, assign, is_of_network, named
from noeira.runtime.interrupts import PutOff
from noeira.runtime.safetensors import read, write
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.program import Program

# The data set that %cursor counts the samples of: how many there are, and whether they are
# shuffled; and how many a step takes. No states: no graph reads them.
SAMPLES, SHUFFLE, BATCH = "samples", "shuffle", "batch"


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write what `restore` needs; of a program that does not train, its network alone. Raises
    CheckpointError.
    """
    with program.store.lock:
        tensors = {**program.tensors, **beside(program), **position(program)}
        write(path, tensors, program.tensors.network)


def restore(program: Program, path: str | os.PathLike[str]) -> None:
    """Let a program go on from a file, or change nothing. Raises CheckpointError."""
    found, place = read(path), position(program)
    if not found.network:
        raise CheckpointError(
            f"{path} is no checkpoint: noeira did not write it; the network alone is what "
            "program.tensors.load takes"
        )
    given = found.tensors
    with PutOff(), program.store.lock:
        own = {**program.tensors, **beside(program), **place}
        if place and not own.keys() - given.keys():
            check_training(program, own, given, path)
        assign(own, given, str(path), found.network)
        if place:
            stand(program, *(int(array) for array in place.values()))


def check_training(
    program: Program,
    own: Mapping[str, np.ndarray],
    given: Mapping[str, np.ndarray],
    path: str | os.PathLike[str],
) -> None:
    """Raises CheckpointError for training that keeps more states, or is in other batches."""
    # What of the program's own is there follows from its entries, and so from the data loaded.
    other = [
        name
        for name in given
        if name.startswith(BESIDE) and name not in own and not is_of_program(name[len(BESIDE) :])
    ]
    if other:
        raise CheckpointError(
            f"{path} is of training with another optimizer or other options: this program keeps no "
            f"{other[0]}; the network alone is what program.tensors.load takes"
        )
    batch = int(given[f"{BESIDE}{BATCH}"])
    if batch != program.batch:
        raise CheckpointError(
            f"{path} is of training in batches of {batch}, and this program takes "
            f"{program.batch}: compile(…, batch={batch})"
        )


def beside(program: Program) -> dict[str, np.ndarray]:
    """What training keeps beside the network's tensors, by the names of checkpoints, as views."""
    found: dict[str, np.ndarray] = {}
    for entry in program.prepare().entries.values() if program.trains else ():
        for state in entry.graph.states:
            name = state.value.name
            if outlives(name) and not is_of_network(state):
                own = is_of_program(name)
                array = program.own_states[name] if own else program.store.current(name)
                found |= named(state, entry.graph.layouts, array)
    return found


def position(program: Program) -> dict[str, np.ndarray]:
    """Where training stands in its data, by the names of checkpoints, no views: the seed that its
    order follows from, the samples taken, of which data set, and in which batches.
    """
    import numpy as np

    if not program.trains:
        return {}
    samples, shuffle = program.stands_in or (0, False)
    taken = int(program.own_states.get(CURSOR, 0))
    numbers = {SEED: program.seed, CURSOR: taken, SAMPLES: samples, SHUFFLE: shuffle}
    numbers |= {BATCH: program.batch}
    return {f"{BESIDE}{name}": np.array(value, np.int64) for name, value in numbers.items()}


def stand(program: Program, seed: int, taken: int, samples: int, shuffle: int, batch: int) -> None:
    """Have a program, which takes such batches, stand where `position` told."""
    program.seed, program.stands_in = seed, (samples, bool(shuffle)) if samples else None
    program.own_states.setdefault(CURSOR, aligned_zeros(COUNTER))[...] = taken
    if SEED in program.own_states:
        program.own_states[SEED][...] = seed
    if program.training is not None:
        program.training.begin(program.training.shuffle)
