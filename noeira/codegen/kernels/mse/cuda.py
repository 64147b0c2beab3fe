"""How CUDA runs the kernel `mse`."""

from __future__ import annotations

from noeira.codegen.cuda.total import Total


class MSE(Total):
    """Sums of chunks, then their sum; 16-bit floats are added up in f32."""

    stem = "mse"
