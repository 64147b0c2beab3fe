"""The search: rounds over all candidates, the clearly slower ones dropped, the winner confirmed.

Every number compared is the median of some steps in a row, and candidates take turns, so that
whatever the machine does at a time meets all of them. What leads at the end is timed once more
against the rule's choice, in turns again: the fastest of many is always a little lucky.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from noeira.ir.plan import Choice
from noeira.tuning.trials import Trials, Tried

# After each round, candidates slower than the fastest by more than this factor are dropped; beyond
# the better half, and FEW of them, all others too.
SLACK = (1.5, 1.25, 1.15, 1.1, 1.08, 1.06, 1.05, 1.04, 1.03, 1.03)
FEW = 6
CONFIRMING = 24
# A choice is kept if it is faster than the rule's by more than this factor.
CLEARLY = 1.03


@dataclass(frozen=True)
class Outcome:
    """What was found for a problem: seconds by rule and with the best choice, in turns."""

    tried: Tried
    by_rule: float
    best: float
    choice: Choice

    @property
    def gain(self) -> float:
        """How many times as fast the best choice is as the rule's."""
        return self.by_rule / self.best

    @property
    def better(self) -> bool:
        """Whether it is worth a row in a table."""
        return self.choice != self.tried.candidates[0] and self.gain > CLEARLY


# Whether to stop, asked with the number of rounds that are done.
Over = Callable[[int], bool]


def search(trials: Trials, over: Over) -> list[Outcome]:
    """The best choice for each problem; once `over` says so, of what has been timed until then. A
    problem is left out if that happens before all its candidates were, and nothing better is known.
    """
    leaders, whole = narrowed(trials, over)
    if not whole and not any(leaders):
        return []
    return [outcome for outcome in confirmed(trials, leaders) if whole or outcome.better]


def narrowed(trials: Trials, over: Over) -> tuple[list[int], bool]:
    """The candidate of each problem that leads after some rounds, and whether all were timed."""
    alive = [list(range(len(tried.candidates))) for tried in trials.tried]
    times: list[dict[int, list[float]]] = [{pick: [] for pick in picks} for picks in alive]
    for number, slack in enumerate(SLACK):
        if max(map(len, alive)) == 1:
            break
        for picks in turns(alive, number):
            if over(number):
                return list(map(leader, times, alive)), number > 0
            for own, pick, seconds in zip(times, picks, trials.visit(picks), strict=True):
                own[pick].append(seconds)
        alive = [survivors(own, picks, slack) for own, picks in zip(times, alive, strict=True)]
    return list(map(leader, times, alive)), True


def turns(alive: Sequence[Sequence[int]], number: int) -> Iterator[list[int]]:
    """The picks of a round, in which every living candidate has a turn; in each round beside others
    of the other problems.
    """
    for turn in range(max(map(len, alive))):
        yield [picks[(turn + number * shift) % len(picks)] for shift, picks in enumerate(alive)]


def survivors(times: dict[int, list[float]], alive: Sequence[int], slack: float) -> list[int]:
    """Those that may still turn out to be the fastest, and the rule's choice."""
    ranked = sorted(alive, key=lambda pick: typical(times[pick]))
    limit = slack * typical(times[ranked[0]])
    near = [pick for pick in ranked if typical(times[pick]) <= limit]
    return sorted({0, *near[: max(FEW, len(alive) // 2)]})


def typical(times: Sequence[float]) -> float:
    """What a candidate takes: the median, or of two the smaller, since disturbance only adds."""
    return min(times) if len(times) < 3 else statistics.median(times)


def leader(times: dict[int, list[float]], alive: Sequence[int]) -> int:
    """The fastest of those left that were timed at all; the rule's choice if none was."""
    timed = (pick for pick in alive if times[pick])
    return min(timed, key=lambda pick: typical(times[pick]), default=0)


def confirmed(trials: Trials, leaders: Sequence[int]) -> list[Outcome]:
    """The leaders against the rules' choices, freshly timed in turns.

    Which of the two runs changes from problem to problem in another rhythm, so that no problem
    always meets the same neighbours.
    """
    seconds: list[dict[int, list[float]]] = [{0: [], pick: []} for pick in leaders]
    for number in range(CONFIRMING):
        picks = [
            pick if (number + (number >> 1 + shift % 3)) % 2 else 0
            for shift, pick in enumerate(leaders)
        ]
        for own, pick, taken in zip(seconds, picks, trials.visit(picks), strict=True):
            own[pick].append(taken)
    return [
        Outcome(
            tried,
            statistics.median(own[0]),
            statistics.median(own[pick]),
            tried.candidates[pick],
        )
        for tried, own, pick in zip(trials.tried, seconds, leaders, strict=True)
    ]


def until(deadline: float, stopped: Callable[[], bool], rounds: int = 0) -> Over:
    """Whether the time, of `time.monotonic`, is up and so many rounds are done, or somebody asked
    to stop.
    """
    return lambda done: stopped() or (done >= rounds and time.monotonic() > deadline)
