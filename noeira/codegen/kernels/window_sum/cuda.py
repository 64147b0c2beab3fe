"""How CUDA adds up the cells of windows, and the windows of cells."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.anchor import anchor_of
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.windows import CudaWindows, Windowed
from noeira.codegen.kernels.window_sum.summing import is_turned, weighed
from noeira.ir.body import Body


class WindowSum(Windowed):
    """Pixels, each the sum of the cells of its window, or of the windows of its cell."""

    stem = "window_sum"

    def turned(self, body: Body) -> bool:
        return is_turned(body)

    def view(self, body: Body, machine: Arch) -> CudaWindows:
        return replace(super().view(body, machine), **weighed(anchor_of(body)))
