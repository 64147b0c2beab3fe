"""Residual: a module beside the identity."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.chain import LONG, Loop, looped
from noeira.nn.combinators.skip import ProjectedResidual
from noeira.nn.core.image_axes import image_axes
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature
from noeira.nn.core.unify import Misfit
from noeira.nn.primitives.convolution import Conv1D, Conv2D, Conv3D
from noeira.nn.primitives.linear import Linear

__all__ = ["Residual"]

# By the number of axes of a batch.
CONVOLUTIONS: dict[int, Any] = {3: Conv1D, 4: Conv2D, 5: Conv3D}
STRIDES = (1, 2, 3, 4)


class Residual(Loop):
    """`Residual[M]`: x + M(x), M giving the shape it takes (He et al. 2015).

    Parameters: those of M, under `0`.
    """

    @classmethod
    def compose(cls) -> Signature:
        reason = "Residual adds what its module gives to what it takes: both must have one shape"
        return looped(cls, cls.INNER, [repr(cls.INNER)], reason, instead=cls.instead)

    @classmethod
    def instead(cls, inner: type[Module]) -> str:
        """What to write for a module that gives another shape than it takes."""
        skip = projection(inner)
        own = repr(inner) if len(repr(inner)) <= LONG else "…"
        return f"write ProjectedResidual[{own}, {skip!r}]" if skip else ""

    @classmethod
    def because(cls, misfit: Misfit) -> str:
        skip = projection(cls.INNER) if misfit.rule else None
        return misfit.unmet + (f"; or write ProjectedResidual[…, {skip!r}]" if skip else "")

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return x + scope.child("0", cls.INNER).run(x)


def projection(inner: type[Module]) -> Any:
    """The layer without padding that gives from what a module takes what that gives: a convolution
    of 1x1, or of rows a Linear; None if neither does.
    """
    takes, gives = inner.shapes().inputs[0], inner.shapes().outputs[0]
    order = image_axes(takes)
    channels = -1 if order.endswith("c") or not order else -len(takes.axes)
    if len(takes.axes) != len(gives.axes):
        return None
    ends = (takes.axes[channels], gives.axes[channels])
    if not all(isinstance(end, int) for end in ends):
        return None
    for stride in STRIDES if order else (1,):
        skip = CONVOLUTIONS[len(order)].of(*ends, 1, stride, axes=order) if order else Linear[ends]
        with suppress(CompositionError):
            if str(ProjectedResidual[inner, skip].shapes()) == str(inner.shapes()):
                return skip
    return None
