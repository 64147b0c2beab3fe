"""Linear layers."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Param
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import flag, size

__all__ = ["Linear"]


class Linear(Module):
    """y = x W + b, (*, IN) -> (*, OUT).

    Parameters: `weight` [IN, OUT] (PyTorch stores its transpose), decayed; `bias` [OUT], not
    decayed, switched off by `Linear.of(IN, OUT, bias=False)`.
    """

    IN = size()
    OUT = size()
    BIAS = flag(True)
    weight = Param("IN", "OUT")
    bias = Param("OUT", init="bias", when="BIAS")
    signature = "(*, IN) -> (*, OUT)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        bias = [scope.param("bias")] if cls.BIAS else []
        return scope.emit("linear", x, scope.param("weight"), *bias)
