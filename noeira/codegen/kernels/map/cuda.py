"""How CUDA runs element-wise ops."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.kernels.map.shape import map_shape
from noeira.codegen.lower import map_code
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body


class Map(CudaAnchor):
    """A thread for 16 bytes of the result."""

    stem = "map"

    def view(self, body: Body, machine: Arch) -> CudaRows:
        dtype, rows, columns = map_shape(body)
        return CudaRows(dtype, machine.lanes(dtype), rows, columns)

    def head(self, body: Body) -> Elementwise:
        return map_code(body)

    def tail(self, body: Body) -> Elementwise:
        return Elementwise("")
