"""How tests measure: how long an action takes, and whether that grows with what it is given."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any


def timed(action: Callable[[], object], collecting: bool) -> list[float]:
    """Process times of three runs, the shortest first, with Python's garbage collector or not."""
    found = list[float]()
    gc.collect()
    if not collecting:
        gc.disable()
    try:
        for _ in range(3):
            started = time.process_time()
            action()
            found.append(time.process_time() - started)
    finally:
        gc.enable()
    return sorted(found)


def yardstick() -> list[str]:
    """A piece of Python's own work, which took 16 ms where the limits of tests were set."""
    found = dict[str, tuple[int, str]]()
    for number in range(40_000):
        found[f"v{number}"] = (number, str(number))
    return sorted(found)


def quick(action: Callable[[], object], seconds: float) -> bool:
    """Whether an action takes less than so many seconds, where the yardstick takes 16 ms: on a
    machine that is slower now, or always, it may take as much longer.

    Asked up to five times, as what else runs on the machine changes from one moment to the next.
    """
    return any(
        timed(action, True)[0] < seconds * timed(yardstick, True)[0] / 0.016 for _ in range(5)
    )


def near_linear(action: Callable[[Any], object], small: Any, twice: Any) -> bool:
    """Whether twice as much takes less than 2.6 times as long.

    Asked up to five times: caches and what else runs on the machine make an answer uncertain.
    """
    return any(
        timed(lambda: action(twice), False)[0] < 2.6 * timed(lambda: action(small), False)[0]
        for _ in range(5)
    )


def seconds_of_children(action: Callable[[], object]) -> float:
    """The process time of the processes that an action starts and waits for."""
    before = os.times()
    action()
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
