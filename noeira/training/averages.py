"""What of a network is evaluated: where there is a moving average of its parameters, that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from noeira.ir.entry import STEP
from noeira.ir.states import EMA
from noeira.runtime.program import Program


@contextmanager
def averages(program: Program) -> Iterator[None]:
    """In a `with` block, the network has its moving averages, if it is compiled with `ema=`; those
    that another program has kept of it are not those of this training.
    """
    if not has_average(program):
        yield
        return
    with program.averaged():
        yield


def has_average(program: Program) -> bool:
    """Whether a program is compiled with `ema=`."""
    return any(state.value.name == EMA for state in program.entry(STEP).graph.states)
