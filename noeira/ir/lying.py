"""How the values of an op lie in memory: the part of its contract that is about orders of axes."""

from __future__ import annotations

from typing import Any

from noeira.ir.orders import stored
from noeira.ir.types import Types


class Lying:
    """What every op says of orders (see `noeira.ir.orders`); most keep to what stands here."""

    @property
    def laid_as(self) -> Any:
        """What a node is to kernels, when it is laid: by default the same."""
        return self

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        """The order that each result lies in, given the types of operands and, row major, of
        results; nothing if all are row major.
        """
        return ()

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        """The order that its kernel takes each operand in; None where it takes any."""
        return ("",) * len(operands)

    def lies_otherwise(self, attrs: Any) -> bool:
        """Whether `laid` changes a node even if no value of it has an order."""
        return False

    def laid(self, attrs: Any, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        """Attributes, operands and results as kernels see them: the types as they lie in memory,
        row major, in the orders that there are.
        """
        return attrs, tuple(map(stored, operands)), tuple(map(stored, results))
