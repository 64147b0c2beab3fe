"""Residual: a module beside the identity."""

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
from noeira.nn.core.slots import module


class Residual(Container):
    """`Residual[M]`: x + M(x), M giving the shape it takes (He et al. 2015).

    Parameters: those of M, under `0`.
    """

    INNER = module()
    placeholders: ClassVar[dict[str, str]] = {"INNER": "M"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) > 1 and "INNER" in cls.slots:
            inside = ", ".join(map(repr, args))
            raise CompositionError(
                f"{as_written(cls, args, named)}: {cls.__name__} has one module; "
                f"write {cls.__name__}[Sequential[{inside}]]"
            )

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return (cls.INNER,)

    @classmethod
    def compose(cls) -> Signature:
        reason = "Residual adds what its module gives to what it takes: both must have one shape"
        return looped(cls, cls.INNER, [repr(cls.INNER)], reason)

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        if "INNER" not in cls.slots:
            return super().adjusted(end, axis, length)
        inner = both_ends(cls.INNER, axis, length) if "values" in cls.__dict__ else None
        return inner and cls.origin.make((inner,))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("add", x, scope.child("0", cls.INNER).run(x))
