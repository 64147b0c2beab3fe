"""Ops that are sums of products with a weight, plus a bias: what a factor and a summand for each
channel of the result can be folded into.
"""

from __future__ import annotations

from typing import Any

from noeira.ir.op import Op
from noeira.ir.types import TensorType

Shape = tuple[int, ...]


class Filters(Op):
    """An op with operands `x` (or another first), `weight` and, if it is given, `bias` [C]."""

    def channel_axis(self, attrs: Any, result: TensorType) -> int:
        """The axis of the result that has the channels."""
        return len(result.shape) - 1

    def factor_shapes(self, attrs: Any, weight: TensorType, channels: int) -> tuple[Shape, ...]:
        """The shapes that a number for each channel takes in turn, by views and repeated, until it
        can be multiplied with the weight; none if it cannot.
        """
        return ((*(1,) * (len(weight.shape) - 1), channels),)
