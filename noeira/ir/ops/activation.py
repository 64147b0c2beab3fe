"""Activation functions, element-wise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from noeira.ir import graph
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, f32
from noeira.ir.scalar import Expr, call, lift, select, square, var

x, y = var("x"), var("y")


class ReLU(Elementwise):
    """max(x, 0); its slope is 0 where the result is not positive. NaN stays NaN, as in PyTorch."""

    name = "relu"

    def expression(self, attrs: Any) -> Expr:
        return call("max", x, 0)

    def slope(self, attrs: Any, index: int) -> Expr:
        return select(call("le", y, 0), 0, 1)


class Tanh(Elementwise):
    """tanh x"""

    name = "tanh"

    def expression(self, attrs: Any) -> Expr:
        return call("tanh", x)

    def slope(self, attrs: Any, index: int) -> Expr:
        return 1.0 - square(y)


class Sigmoid(Elementwise):
    """1 / (1 + exp(-x))"""

    name = "sigmoid"

    def expression(self, attrs: Any) -> Expr:
        return call("sigmoid", x)

    def slope(self, attrs: Any, index: int) -> Expr:
        return y * (1.0 - y)


class SiLU(Elementwise):
    """x · sigmoid(x) (Elfwing et al. 2017; "swish")"""

    name = "silu"

    def expression(self, attrs: Any) -> Expr:
        return x * call("sigmoid", x)


class GELU(Elementwise):
    """x · Φ(x), Φ the normal distribution function (Hendrycks and Gimpel 2016)"""

    name = "gelu"

    def expression(self, attrs: Any) -> Expr:
        return x * call("normal_cdf", x)


class GELUTanh(Elementwise):
    """0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), written as x · sigmoid(2 · …), which keeps the
    left tail
    """

    name = "gelu_tanh"

    def expression(self, attrs: Any) -> Expr:
        inner = x * (
            square(x) * (2 * math.sqrt(2 / math.pi) * 0.044715) + 2 * math.sqrt(2 / math.pi)
        )
        return x * call("sigmoid", inner)


class Mish(Elementwise):
    """x · tanh(softplus(x)) (Misra 2019)"""

    name = "mish"

    def expression(self, attrs: Any) -> Expr:
        return x * call("tanh", call("softplus", x))


class Softplus(Elementwise):
    """log(1 + exp x)"""

    name = "softplus"

    def expression(self, attrs: Any) -> Expr:
        return call("softplus", x)


class Symlog(Elementwise):
    """sign(x) · log(1 + |x|) (Hafner et al. 2023)"""

    name = "symlog"

    def expression(self, attrs: Any) -> Expr:
        return call("sign", x) * call("log1p", call("abs", x))

    def slope(self, attrs: Any, index: int) -> Expr:
        return 1.0 / (call("abs", x) + 1.0)


class Symexp(Elementwise):
    """sign(x) · (exp |x| - 1), the inverse of symlog (Hafner et al. 2023)"""

    name = "symexp"

    def expression(self, attrs: Any) -> Expr:
        return call("sign", x) * call("expm1", call("abs", x))

    def slope(self, attrs: Any, index: int) -> Expr:
        return call("abs", y) + 1.0


@dataclass(frozen=True)
class AlphaAttrs(graph.Attrs):
    """alpha: the value -alpha is approached on the left."""

    alpha: float = 1.0


class ELU(Elementwise):
    """x where x > 0, else alpha · (exp x - 1) (Clevert et al. 2015)"""

    name, Attrs = "elu", AlphaAttrs

    def expression(self, attrs: AlphaAttrs) -> Expr:
        return select(call("gt", x, 0), x, call("expm1", x) * attrs.alpha)


@dataclass(frozen=True)
class SlopeAttrs(graph.Attrs):
    """slope: the slope on the left."""

    slope: float = 0.01


class LeakyReLU(Elementwise):
    """x where x > 0, else slope · x"""

    name, Attrs = "leaky_relu", SlopeAttrs

    def expression(self, attrs: SlopeAttrs) -> Expr:
        return select(call("gt", x, 0), x, x * attrs.slope)


@dataclass(frozen=True)
class FactorAttrs(graph.Attrs):
    """factor: what to multiply by."""

    factor: float = 1.0


class Scale(Elementwise):
    """factor · x"""

    name, Attrs = "scale", FactorAttrs

    def expression(self, attrs: FactorAttrs) -> Expr:
        # Not x * factor, which leaves factors of 0 and 1 out.
        return Expr("*", (x, lift(attrs.factor)))

    def slope(self, attrs: FactorAttrs, index: int) -> Expr:
        return lift(attrs.factor)

    def bad_samples(self) -> tuple[BadSample, ...]:
        wrong = BadSample((f32(3),), "scale: 1e+300 does not fit in f32", {"factor": 1e300})
        return (*super().bad_samples(), wrong)


@dataclass(frozen=True)
class BoundAttrs(graph.Attrs):
    """low, high: the bounds."""

    low: float = 0.0
    high: float = 1.0


class Clamp(Elementwise):
    """min(max(x, low), high); its slope is 1 between the bounds, both included, as in PyTorch"""

    name, Attrs = "clamp", BoundAttrs

    def expression(self, attrs: BoundAttrs) -> Expr:
        return call("min", call("max", x, attrs.low), attrs.high)

    def slope(self, attrs: BoundAttrs, index: int) -> Expr:
        inside = select(call("le", x, attrs.high), 1, 0)
        return select(call("ge", x, attrs.low), inside, 0)
