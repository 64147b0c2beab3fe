"""How C runs the kernel `keep`."""

from __future__ import annotations

from noeira.codegen.c.moving import Moving


class Keep(Moving):
    """Threads share the state."""

    stem = "keep"
