"""Sequential: modules one after the other."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from noeira.ir.graph import Value
from noeira.nn.combinators.chain import broken, composed, first_break, replaced
from noeira.nn.combinators.container import Container
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.slots import modules


class Sequential(Container):
    """`Sequential[A, B, C]`: C(B(A(x))).

    Takes what A takes and gives what C gives; each module must take what the one before it gives.
    Parameters: those of the modules, named by position, `0.weight`.
    """

    LAYERS = modules()
    placeholders: ClassVar[dict[str, str]] = {"LAYERS": "A, B, …"}

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return cls.LAYERS

    @classmethod
    def compose(cls) -> Signature:
        return composed(cls, cls.parts())

    @classmethod
    def misfit(cls, inputs: list[Pattern | None], outputs: list[Pattern | None]) -> Exception:
        given = inputs[0] if inputs else None
        found = given and first_break(cls.parts(), given)
        if not given or not found:
            return super().misfit(inputs, outputs)
        title = f"{cls.__name__}, given {given.written()},"
        return broken((cls.origin or cls).__name__, cls.parts(), found, title)

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        if "LAYERS" not in cls.slots:
            return super().adjusted(end, axis, length)
        layers = replaced(cls.parts(), end, axis, length) if "values" in cls.__dict__ else None
        return layers and cls.origin.make((tuple(layers),))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        for name, part in cls.children():
            x = scope.child(name, part).run(x)
        return x
