"""Entries: what a program can be asked to do, each a graph that knows what it is given; and how a
data set is gone through by calls of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from noeira.errors import NoeiraError
from noeira.ir.text.dump import Dump

# The entries that a program may have, each called after the method that runs it (`order` after the
# value that it gives): of those that need no data set the one that does most comes first.
WITHOUT_DATA = STEP, GRADIENTS, FORWARD = "step", "gradients", "forward"
STEPS, EVALUATE = "steps", "evaluate"
# What a data set that a program has loaded is for.
Purpose: TypeAlias = Literal["training", "evaluation"]
# What an entry is given: any number of rows that its caller has, in turns of a batch; one batch
# that its caller has; a data set that the program has loaded; the number of an epoch, to draw its
# order; nothing at all, beside its states.
Reads: TypeAlias = Literal["rows", "batch", Purpose, "epoch", "nothing"]


@dataclass(frozen=True)
class Entry:
    """A graph that a program runs, with the passes still to run on it.

    rows: samples that one call takes; reads: where it has them from.
    """

    dump: Dump
    rows: int
    reads: Reads

    @property
    def name(self) -> str:
        """What it is called, after the method that runs it: `step`, `steps.last`."""
        return self.dump.graph.entry


@dataclass(frozen=True)
class DataPass:
    """Once through a data set of so many samples: entries in turn, each called so often in a row.

    Of no samples there are no turns. Where a program stands in it is the number of samples taken,
    and nothing else: so each entry takes some.
    """

    samples: int = 0
    turns: tuple[tuple[Entry, int], ...] = ()

    def __post_init__(self) -> None:
        """Raises NoeiraError for an entry whose calls the number of samples would not tell."""
        for entry, _ in self.turns:
            if entry.rows < 1:
                raise NoeiraError(
                    f"{entry.name} takes no samples, so a pass over a data set cannot say when it "
                    "was called: let an entry that takes samples do its work"
                )

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, each once."""
        return tuple(dict.fromkeys(entry for entry, _ in self.turns))

    @property
    def calls(self) -> int:
        """The calls of all turns."""
        return sum(count for _, count in self.turns)

    def done(self, taken: int) -> int:
        """The calls that have taken the first so many samples."""
        calls = 0
        for entry, count in self.turns:
            here = min(count, taken // entry.rows)
            calls, taken = calls + here, taken - here * entry.rows
        return calls

    def following(self, done: int) -> tuple[Entry, int]:
        """The entry that comes after so many calls, fewer than all, and how often in a row."""
        for entry, count in self.turns:
            if done < count:
                return entry, count - done
            done -= count
        raise ValueError("there is no call after the last one")


def in_batches(name: str, samples: int, batch: int, entry: Callable[[str, int], Entry]) -> DataPass:
    """Once through a data set: whole batches, then what is left by an entry of its own.

    entry: makes the entry of a name that takes so many rows.
    """
    full, rest = divmod(samples, batch)
    turns = [(entry(name, batch), full)] if full else []
    turns += [(entry(f"{name}.last", rest), 1)] if rest else []
    return DataPass(samples, tuple(turns))
