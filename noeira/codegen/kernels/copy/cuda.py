"""How CUDA runs the kernel `copy`."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.ir.types import FLOATS


class Copy(CudaAnchor):
    """Elements are moved as they are, of any dtype."""

    stem = "copy"
    dtypes = frozenset(FLOATS)
