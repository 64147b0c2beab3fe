"""How C runs the kernel `pad`."""

from __future__ import annotations

from noeira.codegen.c.moving import Windowed


class Pad(Windowed):
    """Rows of the result."""

    stem = "pad"
