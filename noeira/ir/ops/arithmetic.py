"""Element-wise arithmetic."""

from __future__ import annotations

from typing import Any

from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, drawn, f32
from noeira.ir.scalar import Expr, call, select, var

a, b = var("a"), var("b")


class Add(Elementwise):
    """a + b"""

    name, operands = "add", ("a", "b")

    def expression(self, attrs: Any) -> Expr:
        return a + b


class Subtract(Elementwise):
    """a - b"""

    name, operands = "subtract", ("a", "b")

    def expression(self, attrs: Any) -> Expr:
        return a - b


class Multiply(Elementwise):
    """a · b"""

    name, operands = "multiply", ("a", "b")

    def expression(self, attrs: Any) -> Expr:
        return a * b


class Divide(Elementwise):
    """a / b"""

    name, operands = "divide", ("a", "b")

    def expression(self, attrs: Any) -> Expr:
        return a / b

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(4, 33)), Draw(f32(4, 33), "positive"))),)


class Extreme(Elementwise):
    """The parent of the greater and the lesser of two numbers, NaN if one of them is. The gradient
    flows to that operand, half of it to each of two that are equal, as in PyTorch.
    """

    operands = ("a", "b")
    function: str
    beyond: str

    def expression(self, attrs: Any) -> Expr:
        return call(self.function, a, b)

    def slope(self, attrs: Any, index: int) -> Expr:
        own, other = (a, b) if index == 0 else (b, a)
        return select(call(self.beyond, other, own), 0, select(call("eq", a, b), 0.5, 1))

    def samples(self) -> tuple[Sample, ...]:
        return drawn((7,), (7,)), drawn((5, 19), (19,))


class Maximum(Extreme):
    """max(a, b)"""

    name, function, beyond = "maximum", "max", "gt"


class Minimum(Extreme):
    """min(a, b)"""

    name, function, beyond = "minimum", "min", "lt"


class Exp(Elementwise):
    """exp x"""

    name = "exp"

    def expression(self, attrs: Any) -> Expr:
        return call("exp", var("x"))

    def slope(self, attrs: Any, index: int) -> Expr:
        return var("y")


class Log(Elementwise):
    """log x"""

    name = "log"

    def expression(self, attrs: Any) -> Expr:
        return call("log", var("x"))

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(4, 33), "positive"),)),)
