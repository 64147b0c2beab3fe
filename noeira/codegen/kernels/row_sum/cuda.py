"""How CUDA runs the kernel `row_sum`."""

from __future__ import annotations

from noeira.codegen.cuda.row import Row
from noeira.ir.types import FLOATS


class RowSum(Row):
    """Rows, which are looked at once; 16-bit floats are added up in f32."""

    stem = "row_sum"
    dtypes = frozenset(FLOATS)
