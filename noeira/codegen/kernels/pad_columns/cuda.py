"""How CUDA runs the kernel `pad_columns`."""

from __future__ import annotations

from noeira.codegen.cuda.moving import Moving


class PadColumns(Moving):
    """Rows, moved as they are."""

    stem = "pad_columns"
