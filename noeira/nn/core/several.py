"""Type parameters that are whole numbers of any sign, one or any number of them.

AXES = axes()                     # axes counted from the end, each once
SHAPE = counts()                  # whole numbers, one or more
START = place(0)                  # a whole number, or None if that is the default
"""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.numbers import whole_number
from noeira.nn.core.slots import MISSING, AxisSlot, Slot, advice_for_whole


class PlaceSlot(Slot):
    """A whole number; None where that is the default."""

    what = "a whole number"

    @property
    def is_option(self) -> bool:
        return False

    def read(self, value: Any, written: str) -> Any:
        if value is None and self.default is None:
            return None
        whole = whole_number(value)
        if whole is None:
            raise self.refuse(value, written, advice_for_whole(value))
        return whole


class CountsSlot(Slot):
    """Whole numbers, one or more, each of at least `least`."""

    several, each = True, "number"

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    @property
    def what(self) -> str:  # type: ignore[override]
        """What belongs here."""
        return f"whole numbers of at least {self.least}"

    def read(self, value: Any, written: str) -> Any:
        found = tuple(map(whole_number, values_of(value)))
        for given, whole in zip(values_of(value), found, strict=True):
            if whole is None or whole < self.least:
                raise self.refuse(given, written, advice_for_whole(given))
        return found


class AxesSlot(Slot):
    """Axes of one sample, counted from the end, each once; none are all of them, if that may be."""

    several, each = True, "axis"
    what: ClassVar[str] = AxisSlot.what

    def __init__(self, default: Any) -> None:
        super().__init__(default)
        self.one = AxisSlot()

    def read(self, value: Any, written: str) -> Any:
        self.one.name = self.each.upper()
        found = tuple(self.one.read(axis, written) for axis in values_of(value))
        for axis in found:
            if found.count(axis) > 1:
                raise CompositionError(f"{written} names axis {axis} twice")
        return found


def values_of(value: Any) -> tuple[Any, ...]:
    """Several values, or the one that stands for them."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def place(default: Any = MISSING) -> Any:
    """A type parameter that is a whole number of any sign, or None if that is the default."""
    slot: Any = PlaceSlot(default)
    return slot


def counts(least: int = 0) -> tuple[int, ...]:
    """Type parameters that are whole numbers of at least `least`, one or more."""
    slot: Any = CountsSlot(least)
    return slot


def axes(default: Any = MISSING) -> tuple[int, ...]:
    """Type parameters that are axes counted from the end, each once: -1 is the last."""
    slot: Any = AxesSlot(default)
    return slot
