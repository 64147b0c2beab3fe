"""How C runs element-wise ops."""

from __future__ import annotations

from noeira.codegen.c.anchor import Streamed
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.map.shape import map_shape
from noeira.codegen.lower import map_code
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body

# Threads share rows, so fewer are cut, up to so many, into pieces of at least so many elements.
MOST_ROWS, LEAST_COLUMNS = 64, 1024


class Map(Streamed):
    """Threads share elements, or rows."""

    stem = "map"

    def view(self, body: Body, machine: ISA) -> CRows:
        dtype, rows, columns = map_shape(body)
        cuts = range(1, MOST_ROWS // rows + 1) if rows > 1 else ()
        even = (n for n in cuts if columns % n == 0 and columns // n >= LEAST_COLUMNS)
        count = max(even, default=1)
        return CRows(dtype, machine.lanes(dtype), rows * count, columns // count)

    def head(self, body: Body) -> Elementwise:
        return map_code(body)

    def tail(self, body: Body) -> Elementwise:
        return Elementwise("")
