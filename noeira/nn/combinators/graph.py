"""Graph: modules that read each other by name, for networks that are no chain."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from noeira.ir.graph import Value
from noeira.nn.combinators.container import Container
from noeira.nn.combinators.declarations import declarations
from noeira.nn.combinators.wiring import Mismatch, Wiring, wired
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.unify import Misfit

__all__ = ["Graph"]


class Graph(Container):
    """`Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", Tanh, "h"]]`: modules,
    each of which reads inputs and nodes before it, by name.

    It takes its inputs in order, and gives its last node, or what `Output["y", "z"]` at the end
    names; it is a module like any other. Parameters: those of the nodes, by their names,
    `h.weight`; what an `ExternalNode` uses is elsewhere.
    Raises CompositionError for a name that is unknown, taken, or comes too late, another number of
    inputs than a module takes, shapes that do not fit, and a node that nothing reads.
    """

    DECLARATIONS = declarations()
    placeholders: ClassVar[dict[str, str]] = {
        "DECLARATIONS": 'InputSlot["x", 64], Node["y", Linear[64, 32], "x"]'
    }

    @classmethod
    def wiring(cls) -> Wiring:
        """What feeds what."""
        return cls.remembered("_wiring", partial(wired, cls.family.__name__, cls.DECLARATIONS))

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return cls.wiring().modules

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return cls.wiring().children

    @classmethod
    def compose(cls) -> Signature:
        return cls.wiring().signature()

    @classmethod
    def misfit(
        cls, inputs: list[Pattern | None], outputs: list[Pattern | None], misfit: Misfit
    ) -> Exception:
        given = [pattern for pattern in inputs if pattern is not None]
        if len(given) == len(inputs) > 0:
            shapes = ", ".join(str(pattern.written()) for pattern in given)
            try:
                cls.wiring().solved(given)
            except Mismatch as found:
                return cls.wiring().misfit(found, f"{cls.family.__name__}, given {shapes},")
        return super().misfit(inputs, outputs, misfit)

    @classmethod
    def trace(cls, scope: Scope, *inputs: Value) -> Any:
        return cls.wiring().run(scope, inputs)
