"""Layers that make one number of those along some axes of a sample: sums, means and greatest
ones.
"""

from __future__ import annotations

import math
from typing import ClassVar

from noeira.errors import CompositionError
from noeira.ir.broadcasting import neighbours
from noeira.ir.graph import Value
from noeira.nn.core.expression import variable
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.several import axes
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.slots import flag

__all__ = ["ReduceMax", "ReduceMean", "ReduceSum"]


class Reduce(Module):
    """The parent of layers over some axes of a sample, counted from the end; over all of them if
    none are named. keep: whether they stay, with length 1.
    """

    AXES = axes(())
    KEEP = flag(False)
    placeholders: ClassVar[dict[str, str]] = {"AXES": "-1, …"}

    @classmethod
    def compose(cls) -> Signature:
        if not cls.AXES:
            return Signature((Pattern((), "*"),), (Pattern(()),))
        rank = -min(cls.AXES)
        names = [variable(f"A{place}") for place in range(rank)]
        kept = [1 if axis - rank in cls.AXES else name for axis, name in enumerate(names)]
        if not cls.KEEP:
            kept = [name for axis, name in enumerate(names) if axis - rank not in cls.AXES]
        return Signature((Pattern(tuple(names), "*"),), (Pattern(tuple(kept), "*"),))

    @classmethod
    def check(cls) -> None:
        super().check()
        if cls.KEEP and not cls.AXES:
            raise CompositionError(f"{cls!r}: keep goes with axes: write {cls.__name__}.of(-1, …)")

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        shape = x.type.shape
        rank = len(shape)
        every = [axis % rank for axis in cls.AXES] or list(range(1, rank))
        made = x
        # The last run first, so that the numbers of the axes before it stay.
        for run in reversed(neighbours(every, shape)):
            made = cls.over(scope, made, run)
        kept = tuple(1 if axis in every else n for axis, n in enumerate(shape))
        short = tuple(n for axis, n in enumerate(shape) if axis not in every)
        wanted = kept if cls.KEEP else short
        return made if made.type.shape == wanted else scope.emit("reshape", made, shape=wanted)

    @classmethod
    def over(cls, scope: Scope, x: Value, run: tuple[int, ...]) -> Value:
        """The result over neighbouring axes, which are dropped."""
        raise NotImplementedError(cls.__name__)


class ReduceSum(Reduce):
    """Sums over axes: `ReduceSum[-1]`, (*, A) -> (*); `ReduceSum[-2, -1]`; `ReduceSum` over the
    whole sample. `ReduceSum.of(-1, keep=True)` keeps the axes, with length 1.
    """

    @classmethod
    def over(cls, scope: Scope, x: Value, run: tuple[int, ...]) -> Value:
        return scope.emit("sum", x, axes=run)


class ReduceMean(Reduce):
    """Means over axes: `ReduceMean[-1]`, (*, A) -> (*); `ReduceMean[-2, -1]`; `ReduceMean` over the
    whole sample. `ReduceMean.of(-1, keep=True)` keeps the axes, with length 1.
    """

    @classmethod
    def over(cls, scope: Scope, x: Value, run: tuple[int, ...]) -> Value:
        count = math.prod(x.type.shape[axis] for axis in run)
        return scope.emit("sum", x, axes=run, scale=1 / count)


class ReduceMax(Reduce):
    """The greatest numbers over axes: `ReduceMax[-1]`, (*, A) -> (*); `ReduceMax[-2, -1]`;
    `ReduceMax` over the whole sample. `ReduceMax.of(-1, keep=True)` keeps the axes, with length 1.
    A NaN is greater than all numbers; of equal ones the gradient flows to the first.
    """

    @classmethod
    def over(cls, scope: Scope, x: Value, run: tuple[int, ...]) -> Value:
        shape, first = x.type.shape, run[0]
        behind = shape[run[-1] + 1 :]
        joined = (*shape[:first], math.prod(shape[first : run[-1] + 1]), *behind)
        x = x if joined == shape else scope.emit("reshape", x, shape=joined)
        place = scope.emit("argmax", x, axis=first)
        return scope.emit("pick", x, place, axis=first)
