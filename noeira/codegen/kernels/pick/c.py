"""How C runs the kernel `pick`."""

from __future__ import annotations

from noeira.codegen.c.moving import MovedAlong


class Pick(MovedAlong):
    """One element for each of the result."""

    stem = "pick"
