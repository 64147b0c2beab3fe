"""How C runs the kernel `slice`."""

from __future__ import annotations

from noeira.codegen.c.moving import Windowed


class Slice(Windowed):
    """Rows of the window."""

    stem = "slice"
