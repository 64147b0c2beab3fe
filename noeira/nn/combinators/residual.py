"""Residual: a module beside the identity."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.combinators.chain import Loop, looped
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature

__all__ = ["Residual"]


class Residual(Loop):
    """`Residual[M]`: x + M(x), M giving the shape it takes (He et al. 2015).

    Parameters: those of M, under `0`.
    """

    @classmethod
    def compose(cls) -> Signature:
        reason = "Residual adds what its module gives to what it takes: both must have one shape"
        return looped(cls, cls.INNER, [repr(cls.INNER)], reason)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return x + scope.child("0", cls.INNER).run(x)
