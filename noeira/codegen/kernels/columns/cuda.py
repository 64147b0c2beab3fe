"""How CUDA runs the kernel `columns`."""

from __future__ import annotations

from noeira.codegen.cuda.moving import Moving


class Columns(Moving):
    """Rows, moved as they are."""

    stem = "columns"
