"""Moving averages of a network's parameters, and how they take the place of these for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.ir.entry import STEP
from noeira.ir.states import EMA, PARAMS
from noeira.runtime.store import Store

if TYPE_CHECKING:
    from noeira.runtime.program import Program

# Why no step can be made, and no average taken.
AVERAGED = "inside averaged() the network has its averages: train, save and restore after the block"
NO_AVERAGE = "there is no average of the parameters: compile(…, ema=0.999)"


def begin_averages(program: Program) -> None:
    """Until the program's first update, which begins its averages, let them be what the parameters
    are by now.
    """
    states = program.entry(STEP).graph.states if program.trains else ()
    if any(state.value.name == EMA for state in states) and not program.updates:
        program.store.current(EMA)[...] = program.store.current(PARAMS)


def exchange(store: Store) -> None:
    """Let parameters and averages change places."""
    with store.lock:
        store.exchange(PARAMS, EMA)
        store.averaged = not store.averaged
