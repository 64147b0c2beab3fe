"""How C runs the kernel `soft_cross_entropy`."""

from __future__ import annotations

from noeira.codegen.c.row_total import RowTotal


class SoftCrossEntropy(RowTotal):
    """The loss of each row, then their sum."""

    stem = "soft_cross_entropy"
    terms = "losses"
