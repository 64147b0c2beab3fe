"""Attributes with bounds, which ops and the values that users write have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from noeira.errors import OptionError
from noeira.ir import graph
from noeira.ir.numbers import finite_number

NOT_NEGATIVE = (0.0, math.inf)
BELOW_ONE = (0.0, 1.0)
# The least number above 1 is out of bounds.
AT_MOST_ONE = (0.0, math.nextafter(1.0, 2.0))


@dataclass(frozen=True)
class Bounded(graph.Attrs):
    """The parent of attributes that are checked as they are made.

    bounds: attribute -> (low, high); it must be at least low and less than high. above_zero: those
    that must be greater than 0.
    """

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    above_zero: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Raises OptionError for a value out of its range."""
        bounds = dict[str, tuple[float, float]]()
        for cls in reversed(type(self).__mro__):
            bounds |= vars(cls).get("bounds", {})
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("bool", bool) and not isinstance(value, bool):
                raise self.out_of_range(field.name, "True or False")
            if field.type in ("float", float):
                number = finite_number(value)
                if number is None:
                    raise self.out_of_range(field.name, "a finite number")
                object.__setattr__(self, field.name, number)
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) < high:
                raise self.out_of_range(name, range_text(low, high))
        for name in self.above_zero:
            if getattr(self, name) <= 0:
                raise self.out_of_range(name, "greater than 0")

    def out_of_range(self, name: str, wanted: str) -> OptionError:
        """The error for an attribute that is not what it must be."""
        return OptionError(f"{self.label}: {name} must be {wanted}, not {getattr(self, name)!r}")

    @property
    def label(self) -> str:
        """Whose attributes these are, as messages name it."""
        return type(self).__name__.removesuffix("Attrs")


def range_text(low: float, high: float) -> str:
    """What a number must be that is at least `low` and less than `high`."""
    if high == math.inf:
        return f"{low:g} or greater"
    if high == AT_MOST_ONE[1]:
        return f"from {low:g} to 1"
    return f"at least {low:g} and less than {high:g}"
