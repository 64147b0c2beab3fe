"""How C updates flat states."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.flat_update.code import FlatUpdateView, element_code, view
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.types import COMPUTED


class FlatUpdate(CAnchor):
    """Threads share the elements by whole cache lines."""

    stem = "flat_update"
    dtypes = frozenset(COMPUTED)

    def view(self, body: Body, machine: ISA) -> FlatUpdateView[CRows]:
        type = body.outputs[0].type
        return view(body, CRows(type.dtype, machine.lanes(type.dtype), 1, type.size))

    def head(self, body: Body) -> Elementwise:
        return element_code(body)

    def tail(self, body: Body) -> Elementwise:
        return Elementwise("")
