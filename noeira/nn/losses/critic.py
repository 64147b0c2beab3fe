"""Losses of critics: what a generator is told by, and the penalties on a critic's gradient."""

from __future__ import annotations

import math

from noeira.ir.graph import Value
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import number
from noeira.nn.losses.base import ElementwiseLoss, Loss

__all__ = ["GradientPenalty", "Wasserstein"]


class Wasserstein(ElementwiseLoss):
    """mean of target · prediction: (*), (*) -> (); for a critic, target −1 of what is real and +1
    of what is generated; for a generator −1 (Arjovsky et al. 2017).

    Of a batch half of which is real it is half of mean D(generated) − mean D(real).
    """

    @classmethod
    def each(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return prediction * target


class GradientPenalty(Loss):
    """coefficient · mean over samples of (‖g‖ − target)², of the second output of an
    `InputGradient`: (*) -> (), without a target of its own.

    ‖g‖ is the norm over all of a sample. `GradientPenalty` alone is that of WGAN-GP, target 1 and
    coefficient 10 (Gulrajani et al. 2017); `.of(target=0.0, coefficient=γ/2)` is R1, coefficient ·
    mean of Σ g² (Mescheder et al. 2018). Where g = 0 its gradient in g is 0.
    """

    TARGET = number(1.0, low=0.0)
    COEFFICIENT = number(10.0, low=0.0)
    signature = "(*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, gradient: Value) -> Value:
        here, (rows, *axes) = scope.fused(), gradient.type.shape
        scale = cls.COEFFICIENT / rows
        if not cls.TARGET:
            return here.emit("sum", here.emit("multiply", gradient, gradient), scale=scale)
        g = here.emit("reshape", gradient, shape=(rows, math.prod(axes)))
        squares = here.emit("sum", here.emit("multiply", g, g), axes=(-1,), hint="squares")
        return here.emit("sum", here.emit("norm_penalty", squares, target=cls.TARGET), scale=scale)
