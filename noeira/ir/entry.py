"""Entries: what a program can be asked to do, each a graph that knows what it is given; and how a
data set is gone through by calls of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from noeira.errors import NoeiraError
from noeira.ir.text.dump import Dump

# The entries that a program may have, each called after the method that runs it (`order` after the
# value that it gives): of those that need no data set the one that does most comes first.
WITHOUT_DATA = STEP, GRADIENTS, FORWARD = "step", "gradients", "forward"
STEPS, EVALUATE = "steps", "evaluate"
# A part of a batch before its last, where gradients are added up over parts.
MICRO, MICRO_STEPS = f"{STEP}.micro", f"{STEPS}.micro"
# What a data set that a program has loaded is for.
Purpose: TypeAlias = Literal["training", "evaluation"]
# What makes the weights that `forward` reads, with normalisations folded into them.
FOLD = f"{FORWARD}.fold"
# What an entry is given: any number of rows that its caller has, in turns of a batch; one batch
# that its caller has, or one of its parts; a data set that the program has loaded; the number of an
# epoch, to draw its order; nothing at all, beside its states.
Reads: TypeAlias = Literal["rows", "batch", "part", Purpose, "epoch", "nothing"]


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
class Round:
    """Entries in turn, each called so often in a row; all of that so often.

    Of what trains, once through its turns is a step.
    """

    turns: tuple[tuple[Entry, int], ...]
    times: int = 1

    @property
    def rows(self) -> int:
        """The samples that one time takes."""
        return sum(entry.rows * count for entry, count in self.turns)


@dataclass(frozen=True)
class Following:
    """What comes next in a pass over data: an entry, how many calls of it in a row, and whether
    each of these completes a step.
    """

    entry: Entry
    calls: int
    completes: bool


@dataclass(frozen=True)
class DataPass:
    """Once through a data set of so many samples: rounds in turn.

    Of no samples there are no rounds. Where a program stands in it is the number of samples taken,
    and nothing else: so each entry takes some.
    """

    samples: int = 0
    rounds: tuple[Round, ...] = ()

    def __post_init__(self) -> None:
        """Raises NoeiraError for an entry whose calls the number of samples would not tell."""
        for entry in self.entries:
            if entry.rows < 1:
                raise NoeiraError(
                    f"{entry.name} takes no samples, so a pass over a data set cannot say when it "
                    "was called: let an entry that takes samples do its work"
                )

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, each once."""
        return tuple(dict.fromkeys(e for each in self.rounds for e, _ in each.turns))

    @property
    def steps(self) -> int:
        """The steps of all rounds."""
        return sum(each.times for each in self.rounds)

    def done(self, taken: int) -> int:
        """The steps that are complete when so many samples have been taken."""
        steps = 0
        for each in self.rounds:
            here = min(each.times, taken // each.rows)
            steps, taken = steps + here, taken - here * each.rows
            if here < each.times:
                break
        return steps

    def following(self, taken: int) -> Following:
        """What comes when so many samples have been taken, fewer than all."""
        for each in self.rounds:
            if taken < each.times * each.rows:
                return following_in(each, taken)
            taken -= each.times * each.rows
        raise ValueError("there is no call after the last one")


def following_in(each: Round, taken: int) -> Following:
    """What comes in a round of which so many samples have been taken."""
    before, taken = divmod(taken, each.rows)
    if len(each.turns) == 1 and each.turns[0][1] == 1:
        return Following(each.turns[0][0], each.times - before, True)
    for entry, count in each.turns:
        if taken < count * entry.rows:
            return Following(entry, count - taken // entry.rows, entry is each.turns[-1][0])
        taken -= count * entry.rows
    raise ValueError("fewer samples than a round has were taken")


def in_batches(
    name: str, samples: int, batch: int, entry: Callable[[str, int, bool], Entry], parts: int = 1
) -> DataPass:
    """Once through a data set: whole batches, then what is left. A batch is taken in so many
    `parts`: each but its last by the entry NAME.micro, and the last, which completes a step, by
    NAME; what is left that is no whole part, by NAME.last.

    entry: makes the entry of a name that takes so many rows; told whether it completes a step.
    """
    full, rest = divmod(samples, batch)
    rows, made = batch // parts, cache(entry)
    whole, left = divmod(rest, rows)

    def turns(before: int, last: Entry) -> tuple[tuple[Entry, int], ...]:
        parts_before = ((made(f"{name}.micro", rows, False), before),) if before else ()
        return (*parts_before, (last, 1))

    rounds = list[Round]()
    if full:
        rounds.append(Round(turns(parts - 1, made(name, rows, True)), full))
    if left:
        rounds.append(Round(turns(whole, made(f"{name}.last", left, True))))
    elif whole:
        rounds.append(Round(turns(whole - 1, made(name, rows, True))))
    return DataPass(samples, tuple(rounds))
