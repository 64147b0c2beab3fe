"""How CUDA runs the kernel `keep`."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.ir.types import FLOATS


class Keep(CudaAnchor):
    """Elements are moved as they are, of any dtype."""

    stem = "keep"
    dtypes = frozenset(FLOATS)
