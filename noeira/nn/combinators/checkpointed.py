"""Checkpointed: a module whose values the backward pass computes again, so that none is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from noeira.nn.combinators.container import Wrapper
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature

__all__ = ["Checkpointed"]


class Checkpointed(Wrapper):
    """`Checkpointed[M]`: M, of which only what it takes and gives is kept for the backward pass,
    which computes the rest again (Chen et al. 2016, "Training deep nets with sublinear memory
    cost").

    Takes, gives and trains what M does, bit for bit: random numbers are the same ones when they are
    drawn again, and running statistics are updated once. It costs at most the arithmetic of one
    more forward pass of M; what leads only to the last values of M is not computed again, as these
    are kept. `Sequential[Checkpointed[A], Checkpointed[B]]` keeps what is between A and B; inside
    another Checkpointed this is kept only while the backward pass is in there. What a gradient
    inside the network reads (`InputGradient`) of a Checkpointed within it is kept, too.
    Parameters: those of M, under their own names, so M alone reads the same checkpoints.
    Raises FusionError inside a fused type: put it around that.
    """

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.INNER),)

    @classmethod
    def compose(cls) -> Signature:
        return cls.INNER.shapes()

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        return cls.INNER.adjusted(end, axis, length)

    @classmethod
    def trace(cls, scope: Scope, *inputs: Any) -> Any:
        return scope.checkpointed().child("", cls.INNER).run(*inputs)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A tensor of the module, which has no position of its own: `net[0].weight`."""
