"""What counts as a number where one is asked for: Python's, those of NumPy, and arrays without
axes; no flags, no texts, no other arrays.
"""

from __future__ import annotations

import math
import operator
from typing import Any


def whole_number(value: Any) -> int | None:
    """The value as an int; None if it is no whole number."""
    if isinstance(value, (bool, type)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real_number(value: Any) -> float | None:
    """The value as a float, infinite and NaN too; None if it is no number."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, str, type)) or not hasattr(value, "__float__"):
        return None
    if hasattr(value, "shape"):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def finite_number(value: Any) -> float | None:
    """The value as a float; None if it is no finite number."""
    found = real_number(value)
    return found if found is not None and math.isfinite(found) else None
