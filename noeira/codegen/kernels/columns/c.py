"""How C runs the kernel `columns`."""

from __future__ import annotations

from noeira.codegen.c.moving import Moving


class Columns(Moving):
    """Rows, moved as they are."""

    stem = "columns"
