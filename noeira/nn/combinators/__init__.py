"""Combinators: types that are made of module types."""

from noeira.nn.combinators.aliases import (
    FusedLinear,
    LinearELU,
    LinearGELU,
    LinearGELUTanh,
    LinearMish,
    LinearReLU,
    LinearSigmoid,
    LinearSiLU,
    LinearTanh,
)
from noeira.nn.combinators.fused import Fused
from noeira.nn.combinators.parallel import Parallel
from noeira.nn.combinators.repeat import Repeat
from noeira.nn.combinators.residual import Residual
from noeira.nn.combinators.sequential import Sequential

__all__ = [
    "Fused",
    "FusedLinear",
    "LinearELU",
    "LinearGELU",
    "LinearGELUTanh",
    "LinearMish",
    "LinearReLU",
    "LinearSiLU",
    "LinearSigmoid",
    "LinearTanh",
    "Parallel",
    "Repeat",
    "Residual",
    "Sequential",
]
