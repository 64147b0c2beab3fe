"""How C runs the kernel `softmax`."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor
from noeira.ir.types import FLOATS


class Softmax(CAnchor):
    """Threads share rows."""

    stem = "softmax"
    dtypes = frozenset(FLOATS)
