"""How C runs the kernel `row_sum`."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor
from noeira.ir.types import FLOATS


class RowSum(CAnchor):
    """Threads share rows; 16-bit floats are added up in f32."""

    stem = "row_sum"
    dtypes = frozenset(FLOATS)
