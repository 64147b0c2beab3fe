"""How C runs element-wise ops."""

from __future__ import annotations

from noeira.codegen.c.anchor import Streamed
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.map.shape import map_shape
from noeira.codegen.lower import map_code
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.types import FLOATS


class Map(Streamed):
    """Threads share elements, or rows."""

    stem = "map"
    dtypes = frozenset(FLOATS)

    def view(self, body: Body, machine: ISA) -> CRows:
        dtype, rows, columns = map_shape(body)
        return CRows(dtype, machine.lanes(dtype), rows, columns)

    def head(self, body: Body) -> Elementwise:
        return map_code(body)

    def tail(self, body: Body) -> Elementwise:
        return Elementwise("")
