"""How CUDA runs the kernel `clip_norm`."""

from __future__ import annotations

from noeira.codegen.cuda.total import Total


class ClipNorm(Total):
    """Sums of squares of chunks, then their sum; of 16-bit floats in f32."""

    stem = "clip_norm"
