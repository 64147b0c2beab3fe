"""How CUDA runs the kernel `soft_cross_entropy`."""

from __future__ import annotations

from noeira.codegen.cuda.row_total import RowTotal


class SoftCrossEntropy(RowTotal):
    """The losses of each block's rows, then their sum."""

    stem = "soft_cross_entropy"
