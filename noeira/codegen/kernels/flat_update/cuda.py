"""How CUDA updates flat states."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor, LaunchCut
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.rows import CudaRows
from noeira.codegen.kernels.flat_update.code import FlatUpdateView, element_code, view
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.types import COMPUTED, DTYPE_BYTES


class FlatUpdate(CudaAnchor):
    """A thread for 16 bytes of a state, with room for the numbers that a block reckons once."""

    stem = "flat_update"
    dtypes = frozenset(COMPUTED)

    def shared(self, body: Body, cut: LaunchCut) -> int:
        type = body.outputs[0].type
        found = view(body, CudaRows(type.dtype, 1, 1, type.size))
        return found.room * DTYPE_BYTES[type.dtype]

    def view(self, body: Body, machine: Arch) -> FlatUpdateView[CudaRows]:
        type = body.outputs[0].type
        return view(body, CudaRows(type.dtype, machine.lanes(type.dtype), 1, type.size))

    def head(self, body: Body) -> Elementwise:
        return element_code(body)

    def tail(self, body: Body) -> Elementwise:
        return Elementwise("")
