"""A value: a named tensor of a graph, and the signs between values while a module is traced."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from noeira.errors import CompositionError
from noeira.habits import refuse_attribute
from noeira.ir.types import TensorType


@dataclass(frozen=True)
class Value:
    """A named tensor of a graph, defined once."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"%{self.name}"

    # Type checkers know the two attributes above, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError that says what to emit instead."""
            refuse_attribute(self, "value", name)

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

    # What would look right and is not: each says what to write.
    def __pow__(self, other: Any) -> NoReturn:
        instead = "x * x" if other == 2 else f"products, or {own_op('pow', 'x', repr(other))}"
        raise CompositionError(f"{self}**{other!r}: write {instead}")

    def __rpow__(self, other: Any) -> NoReturn:
        raise CompositionError(f"{other!r}**{self}: write {own_op('pow', repr(other), 'x')}")

    def __matmul__(self, other: Any) -> NoReturn:
        raise CompositionError(f'{self} @ {other}: write scope.emit("matmul", x, w)')

    def __rmatmul__(self, other: Any) -> NoReturn:
        raise CompositionError(f'{other} @ {self}: write scope.emit("matmul", x, w)')

    def __abs__(self) -> NoReturn:
        raise CompositionError(f"abs({self}): write {own_op('abs', 'x')}")

    def __lt__(self, other: Any) -> NoReturn:
        compared(self, "<", other, "lt")

    def __le__(self, other: Any) -> NoReturn:
        compared(self, "<=", other, "le")

    def __gt__(self, other: Any) -> NoReturn:
        compared(self, ">", other, "gt")

    def __ge__(self, other: Any) -> NoReturn:
        compared(self, ">=", other, "ge")

    def __getitem__(self, index: Any) -> NoReturn:
        raise CompositionError(
            f"{self}[…]: a value is read as a whole; columns of it, along the last axis, are "
            'scope.emit("slice", x, starts=(…,), lengths=(…,))'
        )

    def __iter__(self) -> NoReturn:
        raise CompositionError(f"{self} is one value, not several: its op has one result")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """The signs of a value and something of NumPy; every other function of NumPy is refused."""
        name: str = ufunc.__name__
        if name in UFUNC_SIGNS and method == "__call__" and not options:
            return arithmetic(UFUNC_SIGNS[name], *inputs)
        if name in ("equal", "not_equal"):
            return NotImplemented
        raise CompositionError(f"np.{name} of {self}: {NO_ARRAY}")

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        raise CompositionError(f"{self} is no array: {NO_ARRAY}")


NO_ARRAY = (
    'functions of NumPy take arrays: emit ops, as in scope.emit("exp", x); there are those of '
    "`noeira list ops`, and your own"
)
# NumPy leaves `array * value` to the value, under these names.
UFUNC_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def own_op(name: str, *args: str) -> str:
    """What to write for a function that no op of noeira is."""
    return f'an element-wise op of your own, whose expression is call("{name}", {", ".join(args)})'


def compared(value: Value, sign: str, other: Any, name: str) -> NoReturn:
    """Raises the error for a comparison that is written as in Python."""
    raise CompositionError(
        f"{value} {sign} {other}: nothing is true or false while a graph is made: write an "
        f'element-wise op of your own, whose expression is a select(call("{name}", x, …), yes, no)'
    )


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
