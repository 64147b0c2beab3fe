"""Branches beside a module: `ProjectedResidual`, added to it, and `SkipConcat`, its input put
beside what it gives.
"""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import padding
from noeira.nn.combinators.container import Container, Wrapper, unary
from noeira.nn.combinators.parallel import Apart, other_axis, place, side_by_side
from noeira.nn.core.messages import underlined
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import axis, module
from noeira.nn.core.unify import Misfit, Solver

__all__ = ["ProjectedResidual", "SkipConcat"]


class ProjectedResidual(Container):
    """`ProjectedResidual[Inner, Skip]`: Inner(x) + Skip(x), both taking the same shape and giving
    the same, which may be another than x has (He et al. 2015, with a projection).

    Parameters: those of Inner under `0`, those of Skip under `1`.
    """

    INNER = module()
    SKIP = module()
    placeholders: ClassVar[dict[str, str]] = {"INNER": "Inner", "SKIP": "Skip"}

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return (cls.INNER, cls.SKIP)

    @classmethod
    def compose(cls) -> Signature:
        owner = cls.family.__name__
        inner, skip = (unary(owner, part, i).apart(i) for i, part in enumerate(cls.parts()))
        solver = Solver.of(inner, skip)
        try:
            solver.equal(inner.inputs[0], skip.inputs[0])
        except Misfit:
            raise cls.different(owner, "take", "takes") from None
        try:
            solver.equal(inner.outputs[0], skip.outputs[0])
        except Misfit:
            raise cls.different(owner, "give", "gives") from None
        return solver.result(inner.inputs, inner.outputs).tidy()

    @classmethod
    def different(cls, owner: str, verb: str, note: str) -> CompositionError:
        """The error for parts that do not take, or give, the same."""
        shapes = [part.shapes() for part in cls.parts()]
        ends = [one.inputs[0] if note == "takes" else one.outputs[0] for one in shapes]
        notes = {index: f"{note} {end}" for index, end in enumerate(ends)}
        picture = underlined(owner, [repr(part) for part in cls.parts()], notes)
        return CompositionError(
            f"{owner} adds what its two modules give: they must {verb} the same\n\n{picture}"
        )

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        inner, skip = (scope.child(name, part).run(x) for name, part in cls.inside)
        return inner + skip


class SkipConcat(Wrapper):
    """`SkipConcat[M]`: x and M(x) side by side along the last axis, x first, or along another:
    `SkipConcat.of(M, axis=-3)` along the channels of images (C, H, W).

    M(x) may differ from x in that axis only (Huang et al. 2017). Parameters: those of M, under `0`.
    """

    INNER = module()
    AXIS = axis(-1)

    @classmethod
    def compose(cls) -> Signature:
        owner = cls.family.__name__
        inner = unary(owner, cls.INNER)
        both = [parse_signature("(*) -> (*)", owner), inner]
        try:
            return side_by_side(both, cls.AXIS)
        except Apart:
            note = f"takes {inner.inputs[0]}, gives {inner.outputs[0]}"
            picture = underlined(owner, [repr(cls.INNER)], {0: note})
            advice = other_axis(cls, both) or padding(cls.INNER)
            raise CompositionError(
                f"{owner} puts M(x) beside x: they may differ in {place(cls.AXIS)} only"
                f"\n\n{picture}{advice}"
            ) from None

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Any:
        made = scope.child("0", cls.INNER).run(x)
        return scope.emit("concat", x, made, axis=cls.AXIS)
