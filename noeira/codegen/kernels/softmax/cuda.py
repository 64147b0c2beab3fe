"""How CUDA runs the kernel `softmax`."""

from __future__ import annotations

from noeira.codegen.cuda.row import HeldRow
from noeira.ir.types import FLOATS


class Softmax(HeldRow):
    """Rows, which are looked at twice."""

    stem = "softmax"
    dtypes = frozenset(FLOATS)
