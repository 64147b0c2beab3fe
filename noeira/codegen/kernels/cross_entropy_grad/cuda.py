"""How CUDA runs the kernel `cross_entropy_grad`."""

from __future__ import annotations

from noeira.codegen.cuda.row import Row


class CrossEntropyGrad(Row):
    """Rows, one by one."""

    stem = "cross_entropy_grad"
