"""Parallel: modules that read the same input, their outputs side by side."""

from __future__ import annotations

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
from noeira.nn.core.slots import modules
from noeira.nn.core.unify import Misfit, Solver

__all__ = ["Parallel"]


class Parallel(Container):
    """`Parallel[A, B, …]`: A(x), B(x), … put one after the other along the last axis.

    All take the same shape; what they give may differ in the last axis only. Parameters: those of
    the modules, by position.
    """

    BRANCHES = modules()
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
        output, last = signatures[0].outputs[0], list[Axis]()
        for index, signature in enumerate(signatures):
            try:
                last.append(beside(solver, output, signature.outputs[0], index))
            except Misfit:
                raise cls.different_outputs(owner, index) from None
        width: Axis = 0
        for axis in last:
            width = add(width, solver.resolved(axis))
        first = solver.applied(output)
        joined = replace(first, axes=(*first.axes[:-1], width))
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
        return CompositionError(
            f"branches 0 and {index} of {owner} cannot be put side by side\n\n{picture}"
            "\n\n  What they give may differ in the last axis only."
        )

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("concat", *(scope.child(name, part).run(x) for name, part in cls.inside))


def beside(solver: Solver, first: Pattern, other: Pattern, index: int) -> Axis:
    """The last axis of `other`, all axes before it made equal to those of `first`.

    Raises Misfit.
    """
    wide = [
        Pattern((variable(f"W'{index}.{side}"),), f"*'{index}.{side}", other.dtype)
        for side in (0, 1)
    ]
    solver.equal(first, wide[0])
    solver.equal(other, wide[1])
    one, two = solver.applied(first), solver.applied(other)
    solver.equal(replace(one, axes=one.axes[:-1]), replace(two, axes=two.axes[:-1]))
    return two.axes[-1]
