"""How CUDA runs the kernel `pick`."""

from __future__ import annotations

from noeira.codegen.cuda.moving import MovedAlong


class Pick(MovedAlong):
    """One element for each of the result."""

    stem = "pick"
