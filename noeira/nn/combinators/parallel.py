"""Parallel: modules that read the same input, their outputs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.container import Container, unary
from noeira.nn.core.binding import as_written
from noeira.nn.core.expression import Axis, add, variable
from noeira.nn.core.image_axes import image_axes
from noeira.nn.core.messages import change, sentence, underlined
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
        signatures = [unary(owner, part, i) for i, part in enumerate(cls.parts())]
        try:
            return side_by_side(signatures, cls.AXIS)
        except Apart as found:
            if found.misfit is None:
                raise cls.different_outputs(owner, found.index) from None
            raise cls.different_inputs(owner, found.index, found.misfit) from None

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
            f"\n\n  What they give may differ in {place(cls.AXIS)} only."
            f"{other_axis(cls, [part.shapes() for part in cls.parts()])}"
        )

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        made = [scope.child(name, part).run(x) for name, part in cls.inside]
        return scope.emit("concat", *made, axis=cls.AXIS)


def place(axis: int) -> str:
    """An axis as messages call it."""
    return "the last axis" if axis == -1 else f"axis {axis}"


def other_axis(cls: type[Container], signatures: Sequence[Signature]) -> str:
    """What to write where modules can be put side by side along another axis; empty if along none,
    or if their types do not say how many axes there are.
    """
    made = signatures[-1].outputs[0]
    for other in () if made.rest else range(-1, -1 - len(made.axes), -1):
        with suppress(Apart):
            side_by_side(signatures, other)
            order = image_axes(made)
            along = ", along the channels" if order and order[other] == "c" else ""
            parts = next(iter(cls.placeholders.values()))
            return sentence(f"write {cls.family.__name__}.of({parts}, axis={other}){along}")
    return ""


class Apart(Exception):
    """Branch `index` does not take what the first one takes, by `misfit`; or, without that, what it
    gives cannot be put beside what that gives.
    """

    def __init__(self, index: int, misfit: Misfit | None = None) -> None:
        super().__init__(f"branch {index}")
        self.index, self.misfit = index, misfit


def side_by_side(signatures: Sequence[Signature], axis: int) -> Signature:
    """The signature of modules that take one input and whose outputs are put side by side along an
    axis. Raises Apart.
    """
    signatures = [signature.apart(index) for index, signature in enumerate(signatures)]
    solver = Solver.of(*signatures)
    for index, signature in enumerate(signatures[1:], start=1):
        try:
            solver.equal(signatures[0].inputs[0], signature.inputs[0])
        except Misfit as misfit:
            raise Apart(index, misfit) from None
    output, lengths = signatures[0].outputs[0], list[Axis]()
    for index, signature in enumerate(signatures):
        try:
            lengths.append(beside(solver, output, signature.outputs[0], index, axis))
        except Misfit:
            raise Apart(index) from None
    width: Axis = 0
    for length in lengths:
        width = add(width, solver.resolved(length))
    first = solver.applied(output)
    behind = first.axes[len(first.axes) + axis + 1 :]
    joined = replace(first, axes=(*first.axes[:axis], width, *behind))
    return solver.result([signatures[0].inputs[0]], [joined]).tidy()


def beside(solver: Solver, first: Pattern, other: Pattern, index: int, axis: int) -> Axis:
    """The axis of `other` that may differ, all others made equal to those of `first`.

    Raises Misfit.
    """
    for side, pattern in enumerate((first, other)):
        axes = [variable(f"W'{index}.{side}.{place}") for place in range(-axis)]
        solver.equal(Pattern(tuple(axes), f"*'{index}.{side}", other.dtype), pattern)
    one, two = solver.applied(first), solver.applied(other)
    solver.equal(without(one, axis), without(two, axis))
    return two.axes[axis]


def without(pattern: Pattern, place: int) -> Pattern:
    """The pattern with an axis left out."""
    kept = [axis for index, axis in enumerate(pattern.axes) if index - len(pattern.axes) != place]
    return replace(pattern, axes=tuple(kept))
