"""What `x + y` stands for in a trace: the node that is emitted for it at the place being traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.numbers import finite_number
from noeira.ir.value import ARITHMETIC
from noeira.nn.core.promise import NO_ARRAYS, is_array, shown

if TYPE_CHECKING:
    from noeira.nn.core.scope import Scope

NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


@contextmanager
def arithmetic(scope: Scope) -> Iterator[None]:
    """As long as this is open, `+ - * /` between values emit nodes at the place of `scope`."""
    outside = ARITHMETIC.set(partial(emitted, scope))
    try:
        yield
    finally:
        ARITHMETIC.reset(outside)


def emitted(scope: Scope, sign: str, left: Any, right: Any) -> Value:
    """The result of `left sign right`, one of the two a value, the other a value or a number, at
    the place of `scope`.

    A product with a number is a `scale`, any other number a literal of the dtype of the value.
    Raises CompositionError for an operand that is neither.
    """
    if isinstance(left, Value) and isinstance(right, Value):
        return scope.emit(NAMES[sign], left, right)
    value, other = (left, right) if isinstance(left, Value) else (right, left)
    number = finite_number(other)
    if number is None:
        advice = f"; {NO_ARRAYS}" if is_array(other) else ""
        raise CompositionError(
            f"{scope.module!r}: values are computed with values and finite numbers, "
            f"not {shown(other)}{advice}"
        )
    if sign == "*":
        return scope.emit("scale", value, factor=number)
    literal = scope.emit("constant", value=number, dtype=value.type.dtype)
    return scope.emit(NAMES[sign], *((value, literal) if value is left else (literal, value)))
