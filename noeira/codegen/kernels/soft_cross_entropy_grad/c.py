"""How C runs the kernel `soft_cross_entropy_grad`."""

from __future__ import annotations

from noeira.codegen.c.anchor import Streamed


class SoftCrossEntropyGrad(Streamed):
    """Threads share rows."""

    stem = "soft_cross_entropy_grad"
