"""How CUDA runs the kernel `softmax_grad`."""

from __future__ import annotations

from noeira.codegen.cuda.row import HeldRow
from noeira.ir.types import FLOATS


class SoftmaxGrad(HeldRow):
    """Rows, which are looked at twice."""

    stem = "softmax_grad"
    dtypes = frozenset(FLOATS)
