"""Repeat: copies of a module one after the other, each with parameters of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import Loop, looped
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, listed
from noeira.nn.core.slots import module, size

__all__ = ["Repeat", "RepeatConditional"]


class Repeat(Loop):
    """`Repeat[N, M]`, count first: M(M(… x)), N modules with parameters of their own.

    M gives the shape it takes. What it takes beside that, as in M(x, c), is the same for all: M(M(…
    x, c), c). Parameters: those of the copies, under `0`, …, `N-1`.
    """

    in_turn = True
    COUNT = size()
    INNER = module()
    placeholders: ClassVar[dict[str, str]] = {"COUNT": "N", "INNER": "M"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not cls.takes_parts():
            return
        written = as_written(cls, args, named)
        if len(args) == 2 and isinstance(args[0], (type, Module)) and isinstance(args[1], int):
            raise CompositionError(
                f"{written}: the count comes first: write {cls.__name__}[{args[1]}, {args[0]!r}]"
            )
        if len(args) > 2:
            inside = ", ".join(map(repr, args[1:]))
            raise CompositionError(
                f"{written}: {cls.__name__} has one module; "
                f"write {cls.__name__}[{args[0]!r}, Sequential[{inside}]]"
            )

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return (cls.INNER,) * cls.COUNT

    @classmethod
    def compose(cls) -> Signature:
        reason = (
            "Repeat feeds what its module gives to the next copy: it must give the shape it takes"
        )
        parts = [str(cls.COUNT), repr(cls.INNER)]
        return looped(cls, cls.INNER, parts, reason, further=True)

    @classmethod
    def trace(cls, scope: Scope, x: Value, *further: Value) -> Value:
        return cls.through(scope, x, *further)


class RepeatConditional(Repeat):
    """`RepeatConditional[N, M]`: M(M(… x, c), c), N modules of two inputs with parameters of their
    own and the same conditioning c for each, whose gradients are added.

    Parameters: those of the copies, under `0`, …, `N-1`.
    """

    in_turn = False

    @classmethod
    def compose(cls) -> Signature:
        inputs = cls.INNER.shapes().inputs
        if len(inputs) != 2:
            raise CompositionError(
                f"{cls.family.__name__}: {cls.INNER!r} takes {listed(inputs)}; its module takes "
                "two values, what goes round and what is the same for all"
            )
        return super().compose()
