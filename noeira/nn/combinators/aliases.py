"""The short names of fused types: `LinearReLU[784, 256]` is `Fused[Linear[784, 256], ReLU]`."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.nn.combinators.fused import SHORT_NAMES, Fused
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Parameter
from noeira.nn.core.slots import derived, flag, size
from noeira.nn.primitives.activations import ELU, GELU, GELUTanh, Mish, ReLU, Sigmoid, SiLU, Tanh
from noeira.nn.primitives.linear import Linear


def linear_and_activation(cls: Any) -> tuple[type[Module], ...]:
    """The parts of a fused linear layer."""
    return (Linear.make((cls.IN, cls.OUT, cls.BIAS)), cls.ACTIVATION)


class FusedLinear(Fused):
    """The parent of `LinearReLU` and its like: f(x W + b) in one kernel, f applied where the
    product is stored.

    (*, IN) -> (*, OUT). Parameters: `weight` [IN, OUT], `bias` [OUT] (switched off by
    `bias=False`).
    """

    IN = size()
    OUT = size()
    BIAS = flag(True)
    LAYERS = derived(linear_and_activation)
    ACTIVATION: ClassVar[type[Module]]
    placeholders: ClassVar[dict[str, str]] = {}
    signature = "(*, IN) -> (*, OUT)"
    weight: Parameter
    bias: Parameter

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "ACTIVATION" in cls.__dict__:
            SHORT_NAMES[Linear, cls.ACTIVATION] = cls


class LinearReLU(FusedLinear):
    """max(x W + b, 0): `Fused[Linear[IN, OUT], ReLU]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = ReLU


class LinearTanh(FusedLinear):
    """tanh(x W + b): `Fused[Linear[IN, OUT], Tanh]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = Tanh


class LinearSigmoid(FusedLinear):
    """sigmoid(x W + b): `Fused[Linear[IN, OUT], Sigmoid]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = Sigmoid


class LinearSiLU(FusedLinear):
    """silu(x W + b): `Fused[Linear[IN, OUT], SiLU]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = SiLU


class LinearGELU(FusedLinear):
    """gelu(x W + b), the erf form: `Fused[Linear[IN, OUT], GELU]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = GELU


class LinearGELUTanh(FusedLinear):
    """gelu(x W + b), the tanh form: `Fused[Linear[IN, OUT], GELUTanh]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = GELUTanh


class LinearMish(FusedLinear):
    """mish(x W + b): `Fused[Linear[IN, OUT], Mish]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = Mish


class LinearELU(FusedLinear):
    """elu(x W + b), alpha 1: `Fused[Linear[IN, OUT], ELU]`, (*, IN) -> (*, OUT)."""

    ACTIVATION = ELU
