"""How C takes the maxima of windows."""

from __future__ import annotations

from noeira.codegen.c.windows import Windowed


class MaxPool(Windowed):
    """Pixels, each made of the cells of its window."""

    stem = "max_pool"
