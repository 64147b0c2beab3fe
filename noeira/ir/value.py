"""A value: a named tensor of a graph, and the signs between values while a module is traced."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from noeira.errors import CompositionError
from noeira.ir.types import TensorType


@dataclass(frozen=True)
class Value:
    """A named tensor of a graph, defined once."""

    name: str
    type: TensorType

    # NumPy leaves `array * value` to the value, which says what it takes.
    __array_ufunc__ = None

    def __str__(self) -> str:
        return f"%{self.name}"

    def __add__(self, other: Any) -> Value:
        return arithmetic("+", self, other)

    def __radd__(self, other: Any) -> Value:
        return arithmetic("+", other, self)

    def __sub__(self, other: Any) -> Value:
        return arithmetic("-", self, other)

    def __rsub__(self, other: Any) -> Value:
        return arithmetic("-", other, self)

    def __mul__(self, other: Any) -> Value:
        return arithmetic("*", self, other)

    def __rmul__(self, other: Any) -> Value:
        return arithmetic("*", other, self)

    def __truediv__(self, other: Any) -> Value:
        return arithmetic("/", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return arithmetic("/", other, self)

    def __neg__(self) -> Value:
        return arithmetic("*", self, -1.0)


# While a module is traced: emits the node that a sign between two values stands for.
ARITHMETIC: ContextVar[Callable[[str, Any, Any], Value] | None] = ContextVar(
    "ARITHMETIC", default=None
)


def arithmetic(sign: str, left: Any, right: Any) -> Value:
    """The value of `left sign right`. Raises CompositionError outside a trace."""
    emit = ARITHMETIC.get()
    if emit is None:
        raise CompositionError(
            f"{left} {sign} {right}: signs between values are for the trace of a module; "
            "elsewhere write builder.emit"
        )
    return emit(sign, left, right)
