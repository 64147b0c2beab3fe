"""How states begin: the one place where initial values are drawn, for instances, programs and
`noeira run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from noeira.ir.graph import State
from noeira.ir.layouts import Layout
from noeira.ir.orders import member_of
from noeira.ir.random import INITIAL_STREAM, Distribution, write
from noeira.ir.states import SEED
from noeira.ir.types import computed

if TYPE_CHECKING:
    import numpy as np


def begin_state(
    states: Sequence[State], layouts: Sequence[Layout], state: State, seed: int, array: np.ndarray
) -> None:
    """Write into `array` what `state`, one of `states`, begins with under a seed; what says nothing
    of how it begins is left as it is.

    Initial value i, counted over all states in order and over the members of each, is drawn from
    stream INITIAL_STREAM + i. Raises DtypeError for numbers that do not fit in the state's dtype.
    """
    import numpy as np

    if state.value.name == SEED:
        array[...] = seed
    if not state.initial:
        return
    before = states[: [s.value.name for s in states].index(state.value.name)]
    stream = INITIAL_STREAM + sum(len(other.initial) for other in before)
    type = state.value.type
    dtype = computed(type.dtype) or "f64"
    for text, part in zip(state.initial, parts(layouts, state, array), strict=True):
        distribution = Distribution.parse(text)
        distribution.check_fits(str(state.value), type.dtype)
        # Elements are numbered along the axes of the shape, in whatever order these lie.
        drawn = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
        write(distribution, seed, stream, drawn.reshape(-1), dtype)
        if drawn is not part:
            part[...] = drawn
        stream += 1


def parts(layouts: Sequence[Layout], state: State, array: np.ndarray) -> Iterator[np.ndarray]:
    """The members of a state as views of its memory; all of it, if it has none."""
    if not state.members:
        yield array
        return
    layout = next(layout for layout in layouts if layout.name == state.value.type.layout)
    for member in layout.members:
        yield member_of(array, member)
