"""NumPy's broadcasting: shapes are aligned at the right, and axes of length 1 are repeated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noeira.ir.types import TensorType

Shape = tuple[int, ...]


def common_shape(shapes: Iterable[Shape]) -> Shape | None:
    """The shape that all are repeated to; None if they do not go together."""
    found: Shape = ()
    for shape in shapes:
        rank = max(len(found), len(shape))
        pairs = list(zip(aligned(found, rank), aligned(shape, rank), strict=True))
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            return None
        found = tuple(b if a == 1 else a for a, b in pairs)
    return found


def misfit(given: Mapping[str, TensorType]) -> str:
    """Which operand does not go together with one before it, and along which axis."""
    pairs = itertools.combinations(given.items(), 2)
    (other, before), (name, type) = next(
        (a, b) for a, b in pairs if common_shape((a[1].shape, b[1].shape)) is None
    )
    lengths = zip(reversed(type.shape), reversed(before.shape), strict=False)
    axis, own, length = next(
        (-back, own, length)
        for back, (own, length) in enumerate(lengths, 1)
        if own != length and 1 not in (own, length)
    )
    return (
        f"operand {name} is {type}, which does not fit {other}, {before}: "
        f"axis {axis} is {own} in {name} and {length} in {other}, and only 1 is repeated"
    )


def aligned(shape: Shape, rank: int) -> Shape:
    """The shape with axes of length 1 before it, up to so many axes."""
    return (1,) * (rank - len(shape)) + shape


def repeated_axes(shape: Shape, whole: Shape) -> tuple[int, ...]:
    """The axes of `whole` along which an operand of a shape is repeated."""
    pairs = zip(aligned(shape, len(whole)), whole, strict=True)
    return tuple(axis for axis, (own, length) in enumerate(pairs) if own != length)


def neighbours(axes: Iterable[int], shape: Shape) -> list[tuple[int, ...]]:
    """Axes of a shape in runs that lie side by side in memory, once axes of length 1 are
    ignored.
    """
    found = list[tuple[int, ...]]()
    for axis in sorted(axes):
        if found and math.prod(shape[found[-1][-1] + 1 : axis]) == 1:
            found[-1] += (axis,)
        else:
            found.append((axis,))
    return found


@dataclass(frozen=True)
class Step:
    """How an operand is walked through along some neighbouring axes of a loop: of `extent` elements
    in all, each is read for `inner` elements of the loop, and the next lies `stride` further.
    """

    extent: int
    inner: int
    stride: int


def walk_of(shape: Shape, whole: Shape) -> tuple[Step, ...]:
    """How a loop over `whole` walks through an operand of a shape: as few steps as will do, the
    outermost first. Element i of the loop reads the sum of i / inner % extent · stride.
    """
    size = math.prod(whole)
    if math.prod(shape) == size:
        return (Step(size, 1, 1),)
    steps, inner, stride = list[Step](), 1, 1
    for own, length in zip(reversed(aligned(shape, len(whole))), reversed(whole), strict=True):
        if own > 1 and steps and steps[-1].extent * steps[-1].inner == inner:
            steps[-1] = Step(steps[-1].extent * own, steps[-1].inner, steps[-1].stride)
        elif own > 1:
            steps.append(Step(own, inner, stride))
        inner, stride = inner * length, stride * own
    return tuple(reversed(steps))


def runs_by_columns(walk: tuple[Step, ...], columns: int) -> bool:
    """Whether a walk goes through each `columns` elements of its loop one by one, or stays."""
    return all(
        step.inner % columns == 0 or (step.inner == 1 and step.extent % columns == 0)
        for step in walk
    )


def columns_of(walks: Iterable[tuple[Step, ...]], size: int) -> int:
    """The longest columns of a loop of `size` elements that all walks run by."""
    ends = (
        end for walk in walks for step in walk for end in (step.inner, step.inner * step.extent)
    )
    return min((end for end in ends if 1 < end < size), default=size)
