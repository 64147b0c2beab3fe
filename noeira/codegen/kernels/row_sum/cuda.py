"""How CUDA runs the kernel `row_sum`."""

from __future__ import annotations

from noeira.codegen.cuda.row import Row


class RowSum(Row):
    """Rows, one by one."""

    stem = "row_sum"
