"""How CUDA runs the kernel `cross_entropy_grad_grad`."""

from __future__ import annotations

from noeira.codegen.cuda.row_total import RowTotal


class CrossEntropyGradGrad(RowTotal):
    """The terms of each block's rows, then their sum."""

    stem = "cross_entropy_grad_grad"
