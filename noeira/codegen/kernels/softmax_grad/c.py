"""How C runs the kernel `softmax_grad`."""

from __future__ import annotations

from noeira.codegen.c.anchor import Streamed
from noeira.ir.types import FLOATS


class SoftmaxGrad(Streamed):
    """Threads share rows."""

    stem = "softmax_grad"
    dtypes = frozenset(FLOATS)
