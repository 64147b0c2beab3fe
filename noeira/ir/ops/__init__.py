"""The operations, one file a family. Importing the package imports them all: this is the stated
place.
"""

from noeira.ir import fused  # noqa: F401  (the one op that is no family)
from noeira.ir.ops import (
    activation,
    arithmetic,
    contraction,
    control,
    cross_entropy,
    memory,
    metric,
    movement,
    optimizer,
    reduction,
    shuffle,
    soft_cross_entropy,
    softmax,
    squared_error,
)

__all__ = [
    "activation",
    "arithmetic",
    "contraction",
    "control",
    "cross_entropy",
    "memory",
    "metric",
    "movement",
    "optimizer",
    "reduction",
    "shuffle",
    "soft_cross_entropy",
    "softmax",
    "squared_error",
]
