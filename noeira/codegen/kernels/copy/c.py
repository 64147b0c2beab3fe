"""How C runs the kernel `copy`."""

from __future__ import annotations

from noeira.codegen.c.moving import Moving


class Copy(Moving):
    """Threads share the elements."""

    stem = "copy"
