"""How CUDA moves elements as they are: in accesses as large as all lengths allow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import ACCESS_BYTES, Arch
from noeira.codegen.cut import option
from noeira.codegen.rows import rows_and_columns
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES, FLOATS


@dataclass(frozen=True)
class MovingCut(cuda.LaunchCut):
    """access: bytes that a thread moves at a time."""

    access: int = option(most=ACCESS_BYTES, power=True)

    def pieces(self, elements: int, size: int) -> int:
        """Accesses for so many elements of `size` bytes."""
        return elements * size // self.access


class Moving(cuda.CudaAnchor):
    """One launch with a thread for each access of the result."""

    Cut = MovingCut
    dtypes = frozenset(FLOATS)

    def most_access(self, body: Body) -> int:
        """Bytes of the largest access: where rows begin decides, and what begins inside them."""
        moved = body.outputs[0].type
        start = getattr(body.parts[0].attrs, "start", 0)
        values = [v for v in (*body.inputs, *body.outputs) if v.type.dtype == moved.dtype]
        lengths = [rows_and_columns(v.type)[1] for v in values]
        return math.gcd(ACCESS_BYTES, DTYPE_BYTES[moved.dtype] * math.gcd(start, *lengths))

    def rule(self, body: Body, machine: Arch) -> MovingCut:
        access = self.most_access(body)
        accesses = body.outputs[0].type.nbytes // access
        block = cuda.BLOCK if accesses > 1 else 1
        return MovingCut(cuda.blocks_for(accesses, block, machine), block, access)

    def check(self, body: Body, cut: MovingCut, machine: Arch) -> None:
        if cut.access > self.most_access(body):
            most = self.most_access(body)
            raise VerifyError(f"{body.stem}: access must be at most {most} for rows of this length")
