"""How CUDA runs the kernel `argmax`."""

from __future__ import annotations

from noeira.codegen.cuda.moving import Along


class Argmax(Along):
    """Elements are compared as what they are computed in."""

    stem = "argmax"
