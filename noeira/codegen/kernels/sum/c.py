"""How C runs the kernel `sum`."""

from __future__ import annotations

from noeira.codegen.c.total import Total


class Sum(Total):
    """Sums of chunks, then their sum; 16-bit floats are added up in f32."""

    stem = "sum"
