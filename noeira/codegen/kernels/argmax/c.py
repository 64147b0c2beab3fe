"""How C runs the kernel `argmax`."""

from __future__ import annotations

from noeira.codegen.c.moving import Along


class Argmax(Along):
    """Elements are compared as what they are computed in."""

    stem = "argmax"
