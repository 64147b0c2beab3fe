"""How CUDA runs the kernel `top_k`."""

from __future__ import annotations

from noeira.codegen.cuda.row_total import RowTotal


class TopK(RowTotal):
    """Counts of rows, in double, which holds them exactly."""

    stem = "top_k"
    summed = "f64"
