"""Dropout, element-wise: masks are functions of seed, tick and stream, so that none is stored and a
gradient draws its mask again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.scalar import Expr, call, select, var
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType

KEYS = ("seed", "tick", "stream")
# Random numbers are multiples of 1 / STEPS.
STEPS = 1 << 24
# What SELU approaches on the left, λ·α (Klambauer et al. 2017).
SELU_LIMIT = 1.0507009873554805 * 1.6732632423543772


@dataclass(frozen=True)
class RateAttrs(graph.Attrs):
    """rate: the share of elements that are dropped, from 0 to 1."""

    rate: float = 0.5


class Dropping(Elementwise):
    """The parent of ops that drop elements at random."""

    numbers, Attrs = KEYS, RateAttrs

    def infer(self, attrs: Any, *types: TensorType | None) -> tuple[TensorType, ...]:
        if not 0 <= attrs.rate <= 1:
            raise ShapeError(f"{self.name}: rate must be from 0 to 1, not {attrs.rate!r}")
        return super().infer(attrs, *types)

    def one_of(self, attrs: RateAttrs, kept: Expr | float, dropped: Expr | float) -> Expr:
        """The first where an element is kept, the second where it is dropped.

        Random numbers reach the rate where they reach the next of their multiples: so it is the
        same ones in every dtype, whatever the rate is rounded to there.
        """
        drawn = call("uniform", *map(var, KEYS))
        return select(call("ge", drawn, math.ceil(attrs.rate * STEPS) / STEPS), kept, dropped)

    def samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample((Draw(f32(*shape)), *keys_of_samples()), {"rate": rate})
            for shape, rate in (((1,), 0.5), ((4, 33), 0.1), ((2, 3, 17), 0.75), ((5, 8), 1.0))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        operands = (f32(3), *(COUNTER,) * 3)
        return (BadSample(operands, "rate must be from 0 to 1, not 1.5", {"rate": 1.5}),)


def keys_of_samples() -> tuple[Draw, ...]:
    """Seed, tick and stream of a sample."""
    return (Draw(COUNTER, "index", 1000),) * 3


def scale_of_kept(rate: float) -> float:
    """What kept elements are multiplied by, so that the mean stays; none is kept at a rate of 1."""
    return 1 / (1 - rate) if rate < 1 else 0.0


class Dropout(Dropping):
    """x / (1 − rate) where a random number in [0, 1) is at least the rate, else 0 (Srivastava et
    al. 2014, "inverted"): [*S] -> [*S]
    """

    name, operands = "dropout", ("x", *KEYS)

    def expression(self, attrs: RateAttrs) -> Expr:
        return self.one_of(attrs, var("x") * scale_of_kept(attrs.rate), 0)


class AlphaDropout(Dropping):
    """a·x + b where a random number in [0, 1) is at least the rate, else a·c + b (Klambauer et al.
    2017): [*S] -> [*S]

    c = −λ·α is the limit of SELU; a = ((1 − rate)·(1 + rate·c²))^−½ and b = −a·rate·c keep mean 0
    and variance 1. At a rate of 1 all is 0.
    """

    name, operands = "alpha_dropout", ("x", *KEYS)

    def expression(self, attrs: RateAttrs) -> Expr:
        rate, c = attrs.rate, -SELU_LIMIT
        a = 0.0 if rate == 1 else ((1 - rate) * (1 + rate * c * c)) ** -0.5
        b = -a * rate * c
        return self.one_of(attrs, var("x") * a + b, a * c + b)


@dataclass(frozen=True)
class MaskAttrs(RateAttrs):
    """shape: of the mask."""

    shape: tuple[int, ...] = ()
    dtype: str = "f32"


class DropoutMask(Dropping):
    """1 / (1 − rate) where a random number is at least the rate, else 0: a value of that shape, to
    multiply with what is dropped together.
    """

    name, operands, Attrs = "dropout_mask", KEYS, MaskAttrs

    def expression(self, attrs: MaskAttrs) -> Expr:
        return self.one_of(attrs, scale_of_kept(attrs.rate), 0)

    def result_shape(self, attrs: MaskAttrs, given: Mapping[str, TensorType]) -> tuple[int, ...]:
        return attrs.shape

    def result_dtype(self, attrs: MaskAttrs, given: Mapping[str, TensorType]) -> str:
        super().result_dtype(attrs, {"x": TensorType(attrs.dtype, ()), **given})
        return attrs.dtype

    def samples(self) -> tuple[Sample, ...]:
        shapes = (2, 17, 1, 1), (3, 16, 1)
        keys = keys_of_samples()
        return tuple(Sample(keys, {"shape": shape}, differentiable=()) for shape in shapes)

    def bad_samples(self) -> tuple[BadSample, ...]:
        (bad,) = super().bad_samples()
        return (replace(bad, operands=bad.operands[1:]),)
