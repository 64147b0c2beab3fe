"""Modules with something said of them that changes no number they give: `Tokenwise`,
`StopGradParams`, `InitWith`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.container import Wrapper
from noeira.nn.core.binding import as_written
from noeira.nn.core.init import Initializer, initializer
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import ParamInfo, joined
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature
from noeira.nn.core.slots import Slot, module

__all__ = ["InitWith", "StopGradParams", "Tokenwise"]


class Same(Wrapper):
    """The parent of wrappers that take and give what their module does."""

    in_turn = True

    @classmethod
    def compose(cls) -> Signature:
        return cls.INNER.shapes()

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        return cls.INNER.adjusted(end, axis, length)

    @classmethod
    def trace(cls, scope: Scope, *inputs: Value) -> Any:
        ((name, inner),) = cls.inside
        return scope.child(name, inner).run(*inputs)


class Transparent(Same):
    """The parent of those whose module has its parameters under their own names."""

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.INNER),)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A tensor of the module, which has no position of its own: `net[0].weight`."""


class Tokenwise(Same):
    """`Tokenwise[M]`: M, for each token by itself: as layers take any axes in front, (*, D), it is
    M itself, and only stands where networks were written so.

    Parameters: those of M, under `0`.
    """

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) == 2 and isinstance(args[0], int):
            raise CompositionError(
                f"{as_written(cls, args, named)}: the number of tokens is that of the input: "
                f"write {cls.__name__}[{args[1]!r}]"
            )
        super().refuse(args, named)


class StopGradParams(Transparent):
    """`StopGradParams[M]`: M, whose parameters have no gradient and are not trained; gradients flow
    through it to its input.

    Optimizers leave these parameters as they are, weight decay included, and norms of gradients do
    not count them. Buffers, such as running statistics, are updated all the same. Parameters: those
    of M, under their own names, so that M alone reads the same checkpoints.
    """

    in_turn = False

    @classmethod
    def governs(cls, info: ParamInfo) -> ParamInfo:
        return replace(info, frozen=True)

    @classmethod
    def trace(cls, scope: Scope, *inputs: Value) -> Any:
        values = dict(scope.values)
        for path in cls.INNER.parameters() if scope.phase == "train" else ():
            place = joined(scope.tensors, path)
            values[place] = scope.emit("stop_gradient", values[place], hint=f"{path}.fixed")
        return super().trace(replace(scope, values=values), *inputs)


class InitializerSlot(Slot):
    """How weights and biases begin."""

    what: ClassVar[str] = "an initialiser"

    def read(self, value: Any, written: str) -> Any:
        return initializer(value)


def initial() -> Initializer:
    """A type parameter that is an initialiser."""
    slot: Any = InitializerSlot()
    return slot


class InitWith(Transparent):
    """`InitWith[M, Zero]`, `InitWith[M, Normal[0.0, 0.02]]`: M, whose weights and biases begin as
    the initialiser says, in place of the network's.

    The innermost counts; what always begins in one way, such as a scale of ones, begins so here
    too. Parameters: those of M, under their own names.
    """

    INNER = module()
    INIT = initial()
    placeholders: ClassVar[dict[str, str]] = {"INNER": "M", "INIT": "INIT"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Two parameters are as many as there must be."""

    @classmethod
    def governs(cls, info: ParamInfo) -> ParamInfo:
        return replace(info, initializer=info.initializer or cls.INIT)
