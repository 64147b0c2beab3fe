"""How tests measure: how long an action takes, and whether that grows with what it is given."""

from __future__ import annotations

import gc
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


def seconds(action: Callable[[], object]) -> float:
    """The median process time of three runs."""
    return timed(action, True)[1]


def near_linear(action: Callable[[Any], object], small: Any, twice: Any) -> bool:
    """Whether twice as much takes less than 2.6 times as long.

    Asked up to five times: caches and what else runs on the machine make an answer uncertain.
    """
    return any(
        timed(lambda: action(twice), False)[0] < 2.6 * timed(lambda: action(small), False)[0]
        for _ in range(5)
    )
