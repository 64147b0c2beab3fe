"""Parallel: modules that read the same input, their outputs side by side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.container import Container, unary
from noeira.nn.core.binding import as_written
from noeira.nn.core.expression import Axis, add, variable
from noeira.nn.core.messages import change, underlined
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.slots import axis, modules
from noeira.nn.core.unify import Misfit, Solver

__all__ = ["Parallel"]


class Parallel(Container):
    """`Parallel[A, B, …]`: A(x), B(x), … put one after the other along the last axis, or another:
    `Parallel.of(A, B, axis=-3)` along the channels of images (C, H, W).

    All take the same shape; what they give may differ in that axis only. Parameters: those of the
    modules, by position.
    """

    BRANCHES = modules()
    AXIS = axis(-1)
    placeholders: ClassVar[dict[str, str]] = {"BRANCHES": "A, B, …"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) == 1 and isinstance(args[0], type) and cls.takes_parts():
            raise CompositionError(
                f"{as_written(cls, args, named)} has one branch only: write {args[0]!r}"
            )

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return cls.BRANCHES

    @classmethod
    def compose(cls) -> Signature:
        owner = cls.family.__name__
        signatures = [unary(owner, part, i).apart(i) for i, part in enumerate(cls.parts())]
        solver = Solver(waiting=[rule for s in signatures for rule in s.where])
        for index, signature in enumerate(signatures[1:], start=1):
            try:
                solver.equal(signatures[0].inputs[0], signature.inputs[0])
            except Misfit as misfit:
                raise cls.different_inputs(owner, index, misfit) from None
        output, lengths = signatures[0].outputs[0], list[Axis]()
        for index, signature in enumerate(signatures):
            try:
                lengths.append(cls.beside(solver, output, signature.outputs[0], index))
            except Misfit:
                raise cls.different_outputs(owner, index) from None
        width: Axis = 0
        for length in lengths:
            width = add(width, solver.resolved(length))
        first = solver.applied(output)
        behind = first.axes[len(first.axes) + cls.AXIS + 1 :]
        joined = replace(first, axes=(*first.axes[: cls.AXIS], width, *behind))
        return solver.result([signatures[0].inputs[0]], [joined]).tidy()

    @classmethod
    def different_inputs(cls, owner: str, index: int, misfit: Misfit) -> CompositionError:
        """The error for branches 0 and `index`, which do not take the same shape."""
        first, other = cls.parts()[0], cls.parts()[index]
        takes = [first.shapes().inputs[0], other.shapes().inputs[0]]
        notes = {0: f"takes {takes[0]}", index: f"takes {takes[1]}"}
        picture = underlined(owner, [repr(part) for part in cls.parts()], notes)
        alternatives = []
        if misfit.axis is not None:
            for part, like in ((other, takes[0]), (first, takes[1])):
                length = like.axes[misfit.axis] if -misfit.axis <= len(like.axes) else None
                new = (
                    part.adjusted("takes", misfit.axis, length) if isinstance(length, int) else None
                )
                alternatives += [(repr(part), repr(new))] if new else []
        return CompositionError(
            f"branches 0 and {index} of {owner} do not take the same input"
            f"\n\n{picture}{change(*alternatives)}"
        )

    @classmethod
    def different_outputs(cls, owner: str, index: int) -> CompositionError:
        """The error for branches 0 and `index`, whose results cannot be put side by side."""
        gives = {i: f"gives {cls.parts()[i].shapes().outputs[0]}" for i in (0, index)}
        picture = underlined(owner, [repr(part) for part in cls.parts()], gives)
        place = "the last axis" if cls.AXIS == -1 else f"axis {cls.AXIS}"
        return CompositionError(
            f"branches 0 and {index} of {owner} cannot be put side by side\n\n{picture}"
            f"\n\n  What they give may differ in {place} only."
        )

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        made = [scope.child(name, part).run(x) for name, part in cls.inside]
        if cls.AXIS == -1:
            return scope.emit("concat", *made)
        # With what is behind the axis it is one, the last: views of what is there.
        front, behind = made[0].type.shape[: cls.AXIS], made[0].type.shape[cls.AXIS :][1:]
        flat = [
            scope.emit("reshape", y, shape=(*front, math.prod(y.type.shape[cls.AXIS :])))
            for y in made
        ]
        length = sum(y.type.shape[cls.AXIS] for y in made)
        return scope.emit("reshape", scope.emit("concat", *flat), shape=(*front, length, *behind))

    @classmethod
    def beside(cls, solver: Solver, first: Pattern, other: Pattern, index: int) -> Axis:
        """The axis of `other` that may differ, all others made equal to those of `first`.

        Raises Misfit.
        """
        for side, pattern in enumerate((first, other)):
            axes = [variable(f"W'{index}.{side}.{place}") for place in range(-cls.AXIS)]
            solver.equal(Pattern(tuple(axes), f"*'{index}.{side}", other.dtype), pattern)
        one, two = solver.applied(first), solver.applied(other)
        solver.equal(without(one, cls.AXIS), without(two, cls.AXIS))
        return two.axes[cls.AXIS]


def without(pattern: Pattern, place: int) -> Pattern:
    """The pattern with an axis left out."""
    kept = [axis for index, axis in enumerate(pattern.axes) if index - len(pattern.axes) != place]
    return replace(pattern, axes=tuple(kept))
