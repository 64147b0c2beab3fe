"""Element-wise layers of two inputs: nodes of a `Graph`, or modules that stand on top."""

from __future__ import annotations

from typing import ClassVar

from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import size

__all__ = ["Add", "Max", "Min", "Mul", "Sub"]


class BinaryElementwise(Module):
    """The parent of layers that make one element of two: (*), (*) -> (*); with a DIM (*, DIM)."""

    DIM = size(None)
    op: ClassVar[str]

    @classmethod
    def compose(cls) -> Signature:
        text = "(*), (*) -> (*)" if cls.DIM is None else "(*, DIM), (*, DIM) -> (*, DIM)"
        return parse_signature(text, cls.__name__).filled(cls.sizes)

    @classmethod
    def trace(cls, scope: Scope, a: Value, b: Value) -> Value:
        return scope.emit(cls.op, a, b)


class Add(BinaryElementwise):
    """a + b"""

    op = "add"


class Sub(BinaryElementwise):
    """a − b"""

    op = "subtract"


class Mul(BinaryElementwise):
    """a · b"""

    op = "multiply"


class Min(BinaryElementwise):
    """min(a, b); the gradient flows to the lesser, half of it to each of two that are equal, as in
    PyTorch
    """

    op = "minimum"


class Max(BinaryElementwise):
    """max(a, b); the gradient flows to the greater, half of it to each of two that are equal, as in
    PyTorch
    """

    op = "maximum"
