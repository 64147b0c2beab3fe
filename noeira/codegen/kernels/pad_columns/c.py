"""How C runs the kernel `pad_columns`."""

from __future__ import annotations

from noeira.codegen.c.moving import Moving


class PadColumns(Moving):
    """Rows, moved as they are."""

    stem = "pad_columns"
