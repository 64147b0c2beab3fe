"""Residual: a module beside the identity."""

from __future__ import annotations

from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import Loop, looped
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature

__all__ = ["Residual"]


class Residual(Loop):
    """`Residual[M]`: x + M(x), M giving the shape it takes (He et al. 2015).

    Parameters: those of M, under `0`.
    """

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) > 1 and cls.takes_parts():
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
    def trace(cls, scope: Scope, x: Value) -> Value:
        return x + scope.child("0", cls.INNER).run(x)
