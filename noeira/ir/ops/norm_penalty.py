"""The squared distance of a norm from where it is to be, of the sum of squares."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.ir import graph
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, f32
from noeira.ir.scalar import Expr, call, select, square, var

x = var("x")


@dataclass(frozen=True)
class NormAttrs(graph.Attrs):
    """target: where the norm is to be."""

    target: float = 1.0


class NormPenalty(Elementwise):
    """(√x - target)² of a sum of squares x. Its slope is 1 - target/√x, and 0 at 0, where the norm
    has a kink and no direction is better than another.
    """

    name, Attrs = "norm_penalty", NormAttrs

    def expression(self, attrs: NormAttrs) -> Expr:
        return square(call("sqrt", x) - attrs.target)

    def slope(self, attrs: NormAttrs, index: int) -> Expr:
        return select(call("le", x, 0), 0, 1.0 - attrs.target / call("sqrt", x))

    def samples(self) -> tuple[Sample, ...]:
        shapes = ((1,), (7,), (4, 33))
        return tuple(
            Sample((Draw(f32(*shape), "positive"),), {"target": target})
            for shape in shapes
            for target in (1.0, 0.25)
        )
