"""What a program's training needs to go on where it stopped: written to a file, and read back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from noeira.ir.states import COUNTER, CURSOR, SEED, is_of_program, outlives
from noeira.runtime.checkpoint import BESIDE, assign, is_of_network, named, read, write
from noeira.runtime.interrupts import PutOff
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.program import Program

# The data set that %cursor counts the samples of: how many there are, and whether they are
# shuffled. No states: no graph reads them.
SAMPLES, SHUFFLE = "samples", "shuffle"


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write what `restore` needs; of a program that does not train, its network alone. Raises
    CheckpointError.
    """
    with program.store.lock:
        write(path, {**program.tensors, **beside(program), **position(program)})


def restore(program: Program, path: str | os.PathLike[str]) -> None:
    """Let a program go on from a file, or change nothing. Raises CheckpointError."""
    given, place = read(path), position(program)
    with PutOff(), program.store.lock:
        assign({**program.tensors, **beside(program), **place}, given, str(path))
        if place:
            stand(program, *(int(array) for array in place.values()))


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
    order follows from, the samples taken, and of which data set.
    """
    import numpy as np

    if not program.trains:
        return {}
    samples, shuffle = program.stands_in or (0, False)
    taken = int(program.own_states.get(CURSOR, 0))
    numbers = {SEED: program.seed, CURSOR: taken, SAMPLES: samples, SHUFFLE: shuffle}
    return {f"{BESIDE}{name}": np.array(value, np.int64) for name, value in numbers.items()}


def stand(program: Program, seed: int, taken: int, samples: int, shuffle: int) -> None:
    """Have a program stand where `position` told."""
    program.seed, program.stands_in = seed, (samples, bool(shuffle)) if samples else None
    program.own_states.setdefault(CURSOR, aligned_zeros(COUNTER))[...] = taken
    if SEED in program.own_states:
        program.own_states[SEED][...] = seed
    if program.training is not None:
        program.training.begin(program.training.shuffle)
