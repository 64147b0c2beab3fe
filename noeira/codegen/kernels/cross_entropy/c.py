"""How C runs the kernel `cross_entropy`."""

from __future__ import annotations

from noeira.codegen.c.row_total import RowTotal


class CrossEntropy(RowTotal):
    """The loss of each row, then their sum."""

    stem = "cross_entropy"
    terms = "losses"
