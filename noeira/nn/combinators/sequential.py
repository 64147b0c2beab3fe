"""Sequential: modules one after the other."""

from __future__ import annotations

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import Chain, broken, first_break
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern
from noeira.nn.core.unify import Misfit

__all__ = ["Sequential"]


class Sequential(Chain):
    """`Sequential[A, B, C]`: C(B(A(x))).

    Takes what A takes and gives what C gives; each module must take what the one before it gives.
    Parameters: those of the modules, named by position, `0.weight`.
    """

    in_turn = True

    @classmethod
    def misfit(
        cls, inputs: list[Pattern | None], outputs: list[Pattern | None], misfit: Misfit
    ) -> Exception:
        given = inputs[0] if inputs else None
        found = given and first_break(cls.parts(), given)
        if not given or not found:
            return super().misfit(inputs, outputs, misfit)
        layer = cls.parts()[found.index]
        if issubclass(layer, Sequential):
            inner = layer.misfit([found.gives], [], found.misfit)
            if isinstance(inner, CompositionError):  # It fits at the first layer inside.
                return inner
        if not found.index:
            return super().misfit(inputs, outputs, misfit)
        title = f"{cls.__name__}, given {given.written()},"
        return broken(cls.family.__name__, cls.parts(), found, title)

    @classmethod
    def because(cls, misfit: Misfit) -> str:
        return cls.parts()[0].because(misfit)

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return cls.through(scope, x)
