"""Random shapes that go together, as NumPy repeats them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from hypothesis import strategies as st

from noeira.ir.broadcasting import common_shape

Shape = tuple[int, ...]
# Axes, elements of an axis, elements in all.
RANK, LONGEST, MOST = 5, 6, 600


def operand(whole: Shape, choice: Callable[[int], int]) -> Shape:
    """A shape that is repeated to another: some axes 1, some first ones missing; `choice` gives a
    number below its argument.
    """
    kept = tuple(1 if choice(2) else n for n in whole)
    return kept[choice(len(kept) + 1) :] if choice(2) else kept


@st.composite
def wholes(draw: Callable) -> Shape:
    """Any shape."""
    shape = tuple(draw(st.lists(st.integers(1, LONGEST), max_size=RANK)))
    return shape if math.prod(shape) <= MOST else shape[:2]


@st.composite
def operands(draw: Callable, most: int = 3) -> tuple[Shape, ...]:
    """Shapes of some operands that go together."""
    whole = draw(wholes())

    def choice(below: int) -> int:
        return draw(st.integers(0, below - 1))

    return tuple(operand(whole, choice) for _ in range(draw(st.integers(1, most))))


@st.composite
def summed(draw: Callable) -> tuple[Shape, Shape]:
    """A shape, and axes of it that lie side by side."""
    shape = draw(wholes().filter(bool))
    first = draw(st.integers(0, len(shape) - 1))
    last = draw(st.integers(first, len(shape) - 1))
    return shape, tuple(range(first, last + 1))


def some_operands(count: int, seed: int) -> list[tuple[Shape, Shape]]:
    """So many pairs of shapes that go together, the same ones for a seed."""
    draw, found = random.Random(seed), list[tuple[Shape, Shape]]()
    while len(found) < count:
        lengths = (1, 2, 3, 4, 5, 8, 16, 17)
        whole = tuple(draw.choice(lengths) for _ in range(draw.randint(1, RANK)))
        pair = operand(whole, draw.randrange), operand(whole, draw.randrange)
        if 1 < math.prod(common_shape(pair) or ()) <= 4 * MOST:
            found.append(pair)
    return found
