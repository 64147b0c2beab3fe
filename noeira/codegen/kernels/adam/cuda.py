"""How CUDA runs the kernel `adam`."""

from __future__ import annotations

from noeira.codegen.anchor import rows_operand
from noeira.codegen.cuda.anchor import CudaAnchor, LaunchCut
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES


class Adam(CudaAnchor):
    """With room for two numbers that a block reckons once."""

    stem = "adam"

    def shared(self, body: Body, cut: LaunchCut) -> int:
        return 2 * DTYPE_BYTES[rows_operand(body).type.dtype]
