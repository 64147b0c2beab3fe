"""How CUDA runs the kernel `concat`."""

from __future__ import annotations

from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.moving import Moving
from noeira.codegen.kernels.concat.windows import Windows, windows
from noeira.ir.body import Body


class Concat(Moving):
    """Rows, moved as they are."""

    stem = "concat"

    def view(self, body: Body, machine: Arch) -> Windows:
        return windows(body)
