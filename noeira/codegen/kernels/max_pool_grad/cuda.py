"""How CUDA takes what comes back to the maxima of windows."""

from __future__ import annotations

from noeira.codegen.cuda.windows import Windowed
from noeira.ir.body import Body


class MaxPoolGrad(Windowed):
    """Cells, each of which looks for itself among the maxima of its windows: nobody else writes to
    it.
    """

    stem = "max_pool_grad"

    def turned(self, body: Body) -> bool:
        return True
