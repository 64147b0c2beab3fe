"""Layers that give what they take, and let gradients through or not: `StopGrad`, `GradGate`."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.ir.random import Distribution
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Buffer
from noeira.nn.core.scope import Scope
from noeira.nn.primitives.activations import Elementwise

__all__ = ["GradGate", "StopGrad"]


class StopGrad(Elementwise):
    """x; nothing flows back through it. It launches nothing."""

    op = "stop_gradient"


class GradGate(Module):
    """x; gradients flow back through it as long as `open` is true: `net[1].open.val[...] = False`
    closes it from the next call on.

    (*) -> (*). Buffer: `open`, bool [], true to begin with. It launches nothing in forward, and a
    closed gate gives zeros back, whatever comes.
    """

    open = Buffer(init=Distribution("constant", (1.0,)), dtype="bool")
    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("gradient_gate", x, scope.param("open"))
