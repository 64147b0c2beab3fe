"""Type parameters that are a whole number for each axis of an image: `3`, or `(1, 7)` where axes
differ.
"""

from __future__ import annotations

from typing import Any

from noeira.ir.numbers import whole_number
from noeira.nn.core.slots import MISSING, SizeSlot, advice_for_whole


class ExtentSlot(SizeSlot):
    """A whole number of at least `least`, or one for each of some axes, which have letters: those
    of `K` for axes `HW` are KH and KW in signatures and shapes.
    """

    def __init__(self, axes: str, default: Any = MISSING, least: int = 1) -> None:
        super().__init__(default, least)
        self.axes = axes

    @property
    def what(self) -> str:  # type: ignore[override]
        """What belongs here."""
        one = super().what
        if len(self.axes) == 1:
            return one
        return f"{one}, or a tuple of {len(self.axes)}, for {' and '.join(self.axes)}"

    @property
    def is_option(self) -> bool:
        return not self.required

    def read(self, value: Any, written: str) -> Any:
        if not isinstance(value, (tuple, list)) or len(self.axes) == 1:
            whole = whole_number(value)
            if whole is None or whole < self.least:
                advice = advice_for_whole(value) if whole is None else ""
                raise self.refuse(value, written, advice)
            return whole
        found = tuple(map(whole_number, value))
        if len(found) != len(self.axes) or any(n is None or n < self.least for n in found):
            raise self.refuse(tuple(value), written)
        return found[0] if len(set(found)) == 1 else found

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}{axis}" for axis in self.axes)

    def lengths(self, value: Any) -> dict[str, int]:
        numbers = per_axis(value, len(self.axes))
        return dict(zip(self.names, numbers, strict=True))


def per_axis(value: int | tuple[int, ...], axes: int) -> tuple[int, ...]:
    """The value of such a parameter as a number for each axis."""
    return value if isinstance(value, tuple) else (value,) * axes


def extent(axes: str, default: Any = MISSING, least: int = 1) -> Any:
    """A type parameter that is a whole number of at least `least` for each axis of an image, whose
    letters are given: `extent("HW")` is 3 or (1, 7).
    """
    return ExtentSlot(axes, default, least)
