"""What `x + y` stands for in a trace: the node that is emitted for it at the place being traced."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value

if TYPE_CHECKING:
    from noeira.nn.core.scope import Scope

NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


def emitted(scope: Scope, sign: str, left: Any, right: Any) -> Value:
    """The result of `left sign right`, one of the two a value, the other a value or a number, at
    the place of `scope`.

    A product with a number is a `scale`, any other number a literal of the dtype of the value.
    Raises CompositionError for an operand that is neither.
    """
    for operand in (left, right):
        if not isinstance(operand, Value) and not is_number(operand):
            raise CompositionError(
                f"{scope.module!r}: values are computed with values and finite numbers, "
                f"not {operand!r}"
            )
    if sign == "*" and not (isinstance(left, Value) and isinstance(right, Value)):
        value, factor = (left, right) if isinstance(left, Value) else (right, left)
        return scope.emit("scale", value, factor=float(factor))
    dtype = (left if isinstance(left, Value) else right).type.dtype
    return scope.emit(
        NAMES[sign],
        *(v if isinstance(v, Value) else literal(scope, float(v), dtype) for v in (left, right)),
    )


def literal(scope: Scope, number: float, dtype: str) -> Value:
    """A number as a value."""
    return scope.emit("constant", value=number, dtype=dtype)


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
