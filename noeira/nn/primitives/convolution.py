"""Convolutional layers."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Param
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import flag, size

__all__ = ["Conv2D"]


class Conv2D(Module):
    """x ⋆ W + b."""

    IC = size()
    OC = size()
    K = size()
    S = size(1)
    P = size(0, least=0)
    BIAS = flag(True)
    weight = Param("OC", "IC", "K", "K", fans=("IC*K*K", "OC*K*K"), order="hwio")
    bias = Param("OC", init="bias", when="BIAS")
    signature = "(IC, H, W) -> (OC, (H+2*P-K)//S+1, (W+2*P-K)//S+1)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        bias = [scope.param("bias")] if cls.BIAS else []
        return scope.emit(
            "convolution",
            x,
            scope.param("weight"),
            *bias,
            stride=(cls.S, cls.S),
            padding=(cls.P, cls.P),
        )
