"""How CUDA runs the kernel `soft_cross_entropy_grad`."""

from __future__ import annotations

from noeira.codegen.cuda.row import Row


class SoftCrossEntropyGrad(Row):
    """Rows, one by one."""

    stem = "soft_cross_entropy_grad"
