"""How C runs the kernel `cross_entropy_grad_grad`."""

from __future__ import annotations

from noeira.codegen.c.row_total import RowTotal


class CrossEntropyGradGrad(RowTotal):
    """The term of each row, then their sum."""

    stem = "cross_entropy_grad_grad"
