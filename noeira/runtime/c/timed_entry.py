"""A plan's C function that takes down when every launch begins and ends, and what it took down."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.codegen.interface import TIMED, entry_symbol, stamps_per_step
from noeira.ir.plan import STATE, Plan, root_of
from noeira.ir.types import TensorType
from noeira.runtime.c.compiled_entry import CompiledEntry
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

# Stamps that are kept of one native call, at most.
MOST_STAMPS = 1 << 18
FEWEST_STEPS = 5


@dataclass(frozen=True)
class Samples:
    """Measured steps, in seconds.

    stages: (steps, stages), from when all threads had met before a stage until they met again.
    work: (steps, stages), of that the time that the average thread was in the stage's function.
    plain: (rounds,), of a step without taking times. threads: how many took part.
    """

    stages: np.ndarray
    work: np.ndarray
    plain: np.ndarray
    threads: int


class TimedEntry(CompiledEntry):
    """Both entries of a timed unit: the plan's own, and the one that takes down times."""

    def __init__(self, plan: Plan, library: ctypes.CDLL, threads: int) -> None:
        super().__init__(plan, library)
        self.most_shares, self.stamps = threads, stamps_per_step(plan)
        self.threads.value = threads
        self.timed: Any = library[entry_symbol(f"{plan.name}.{TIMED}")]
        self.timed.restype = ctypes.c_long

    def run_plain(self, steps: int) -> float:
        """Up to `steps` steps as a program runs them; gives the seconds of each."""
        started = time.perf_counter()
        done = self.run(steps)
        return (time.perf_counter() - started) / done

    def run_timed(self, room: np.ndarray) -> np.ndarray:
        """As many steps as `room`, of shape (threads, steps, stamps), has room for, or fewer; gives
        the nanoseconds taken down.
        """
        room.fill(0)
        self.steps.value = room.shape[1]
        done = self.timed(*self.arguments, ctypes.c_void_p(room.ctypes.data))
        return room[:, :done].copy()

    def measure(self, seconds: float) -> Samples:
        """Steps for about so long, at least FEWEST_STEPS, in rounds of about 50 ms.

        Every round begins with the states as they were: nothing is trained to where numbers are
        so small that they cost time, and a step that is not ok ends only its round.
        """
        import numpy as np

        names = {update.state.name for update in self.graph.updates}
        first = {
            root: self.arrays[root].copy() for root in (root_of(STATE, name) for name in names)
        }
        most = max(2, MOST_STAMPS // self.stamps // self.most_shares)
        room = aligned_zeros(TensorType("i64", (self.most_shares, most, self.stamps)))
        # Its pages become real now, not in the middle of a launch.
        room.fill(0)
        self.run_plain(2)
        stamps, plain = list[np.ndarray](), list[float]()
        end = time.perf_counter() + seconds
        while sum(s.shape[1] for s in stamps) < FEWEST_STEPS or time.perf_counter() < end:
            self.restore(first)
            plain.append(self.run_plain(most))
            self.restore(first)
            stamps.append(self.run_timed(room))
        return samples_of(np.concatenate(stamps, axis=1), np.array(plain))

    def restore(self, states: Mapping[str, np.ndarray]) -> None:
        """Give states the elements they had."""
        for root, array in states.items():
            self.arrays[root][...] = array


def samples_of(stamps: np.ndarray, plain: np.ndarray) -> Samples:
    """What an entry has taken down: when launches began and ended, in the row of share 0, and how
    long each share took.
    """
    import numpy as np

    met, work = stamps[0, :, 0::2], stamps[:, :, 1::2].mean(axis=0)
    return Samples(1e-9 * np.diff(met, axis=1), 1e-9 * work, plain, len(stamps))
