"""Repeat: copies of a module one after the other, each with parameters of its own."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import both_ends, looped
from noeira.nn.combinators.container import Container
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature
from noeira.nn.core.slots import module, size


class Repeat(Container):
    """`Repeat[N, M]`, count first: M(M(… x)), N modules with parameters of their own.

    M gives the shape it takes. Parameters: those of the copies, under `0`, …, `N-1`.
    """

    COUNT = size()
    INNER = module()
    placeholders: ClassVar[dict[str, str]] = {"COUNT": "N", "INNER": "M"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if "INNER" not in cls.slots:
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
        return looped(cls, cls.INNER, [str(cls.COUNT), repr(cls.INNER)], reason)

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        if "INNER" not in cls.slots:
            return super().adjusted(end, axis, length)
        inner = both_ends(cls.INNER, axis, length) if "values" in cls.__dict__ else None
        return inner and cls.origin.make((cls.COUNT, inner))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        for name, part in cls.children():
            x = scope.child(name, part).run(x)
        return x
