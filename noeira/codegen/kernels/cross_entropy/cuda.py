"""How CUDA runs the kernel `cross_entropy`."""

from __future__ import annotations

from noeira.codegen.cuda.row_total import RowTotal


class CrossEntropy(RowTotal):
    """The losses of each block's rows, then their sum."""

    stem = "cross_entropy"
