"""Gradients of several calls, added up until an optimizer takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.ir.bounded import Bounded
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, select
from noeira.ir.types import Range


@dataclass(frozen=True)
class AccumulateGradientsAttrs(Bounded):
    """weight: a factor on the gradients, the number of samples that they are the mean of. mean:
    whether the sum is divided by all samples, as that which an optimizer takes. ranges: the
    elements that are added up, all if there are none.
    """

    weight: float = 1.0
    mean: bool = False
    ranges: tuple[Range, ...] = ()
    above_zero: ClassVar[tuple[str, ...]] = ("weight",)
