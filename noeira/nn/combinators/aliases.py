"""The short names of fused types: `LinearReLU[784, 256]` is `Fused[Linear[784, 256], ReLU]`.

One more is a class here and its name in `__all__`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.nn.combinators.fused import SHORT_NAMES, Fused
from noeira.nn.core.module import Module
from noeira.nn.core.owned import Parameter
from noeira.nn.core.slots import derived
from noeira.nn.primitives.activations import ELU, GELU, GELUTanh, Mish, ReLU, Sigmoid, SiLU, Tanh
from noeira.nn.primitives.convolution import Conv2D
from noeira.nn.primitives.images import refuse_words
from noeira.nn.primitives.linear import Linear

__all__ = [
    "Conv2DReLU",
    "LinearELU",
    "LinearGELU",
    "LinearGELUTanh",
    "LinearMish",
    "LinearReLU",
    "LinearSiLU",
    "LinearSigmoid",
    "LinearTanh",
]


def parts_of(cls: Any) -> tuple[type[Module], ...]:
    """The parts of a fused type with a short name, whose type parameters are those of the first."""
    return (cls._first.make(tuple(getattr(cls, name) for name in cls.slots)), *cls._then)


class Short(Fused):
    """The parent of fused types with a short name: `class LinearReLU(Short, first=Linear,
    then=(ReLU,))` has the type parameters of Linear.
    """

    _first: ClassVar[type[Module]]
    _then: ClassVar[tuple[type[Module], ...]]
    LAYERS = derived(parts_of)

    def __init_subclass__(
        cls, first: type[Module] | None = None, then: tuple[type[Module], ...] = ()
    ) -> None:
        if first is not None:
            cls._first, cls.placeholders = first, first.placeholders
            for name, slot in first.slots.items():
                setattr(cls, name, slot)
        super().__init_subclass__()
        if then:
            cls._then = then
            SHORT_NAMES[(cls._first, *then)] = cls

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        refuse_words(cls, args, named)


class FusedLinear(Short, first=Linear):
    """The parent of `LinearReLU` and its like: f(x W + b) in one kernel, f applied where the
    product is stored.

    (*, IN) -> (*, OUT). Parameters: `weight` [IN, OUT], `bias` [OUT] (switched off by
    `bias=False`).
    """

    IN: ClassVar[int]
    OUT: ClassVar[int]
    BIAS: ClassVar[bool]
    weight: Parameter
    bias: Parameter


class LinearReLU(FusedLinear, then=(ReLU,)):
    """max(x W + b, 0): `Fused[Linear[IN, OUT], ReLU]`, (*, IN) -> (*, OUT)."""


class LinearTanh(FusedLinear, then=(Tanh,)):
    """tanh(x W + b): `Fused[Linear[IN, OUT], Tanh]`, (*, IN) -> (*, OUT)."""


class LinearSigmoid(FusedLinear, then=(Sigmoid,)):
    """sigmoid(x W + b): `Fused[Linear[IN, OUT], Sigmoid]`, (*, IN) -> (*, OUT)."""


class LinearSiLU(FusedLinear, then=(SiLU,)):
    """silu(x W + b): `Fused[Linear[IN, OUT], SiLU]`, (*, IN) -> (*, OUT)."""


class LinearGELU(FusedLinear, then=(GELU,)):
    """gelu(x W + b), the erf form: `Fused[Linear[IN, OUT], GELU]`, (*, IN) -> (*, OUT)."""


class LinearGELUTanh(FusedLinear, then=(GELUTanh,)):
    """gelu(x W + b), the tanh form: `Fused[Linear[IN, OUT], GELUTanh]`, (*, IN) -> (*, OUT)."""


class LinearMish(FusedLinear, then=(Mish,)):
    """mish(x W + b): `Fused[Linear[IN, OUT], Mish]`, (*, IN) -> (*, OUT)."""


class LinearELU(FusedLinear, then=(ELU,)):
    """elu(x W + b), alpha 1: `Fused[Linear[IN, OUT], ELU]`, (*, IN) -> (*, OUT)."""


class Conv2DReLU(Short, first=Conv2D, then=(ReLU,)):
    """max(conv(x), 0), applied where the convolution is stored: `Fused[Conv2D[IC, OC, K], ReLU]`,
    with the type parameters and shapes of Conv2D.

    Parameters: `weight` [OC, IC/GROUPS, K, K], `bias` [OC] (switched off by `bias=False`).
    """

    weight: Parameter
    bias: Parameter
