"""How C runs the kernel `put`."""

from __future__ import annotations

from noeira.codegen.c.moving import MovedAlong


class Put(MovedAlong):
    """All elements of the result."""

    stem = "put"
