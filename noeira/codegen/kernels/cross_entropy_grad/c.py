"""How C runs the kernel `cross_entropy_grad`."""

from __future__ import annotations

from noeira.codegen.c.anchor import Streamed


class CrossEntropyGrad(Streamed):
    """Threads share rows."""

    stem = "cross_entropy_grad"
