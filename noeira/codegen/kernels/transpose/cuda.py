"""How CUDA transposes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cuda.moving import Moving, MovingCut
from noeira.codegen.cut import option
from noeira.codegen.moved import TurnView, turn_view
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES

# A side of planes that are shorter is gathered element by element: most of a square would be empty.
SHORT = 8


@dataclass(frozen=True)
class TransposeCut(MovingCut):
    """side: of the squares that a block turns in shared memory, in elements; 0 where each thread
    fetches what it writes.
    """

    side: int = option(0, most=WARP)

    @property
    def row(self) -> int:
        """Elements from one row of a square to the next in shared memory: one more than it has, so
        that a column lies in all banks.
        """
        return self.side + 1


class Transpose(Moving):
    """Squares that are read by rows and written by columns, a block each; rows that stay as they
    are, and planes of a short side, are fetched from where they lie.
    """

    stem = "transpose"
    Cut = TransposeCut

    def rule(self, body: Body, machine: Arch) -> TransposeCut:
        moving, view = super().rule(body, machine), self.view(body, machine)
        plain = TransposeCut(moving.grid, moving.block, moving.access)
        if view.turn.keeps_last or min(view.rows, view.columns) < SHORT:
            return plain
        return replace(plain, grid=view.squares(WARP), block=cuda.BLOCK, side=WARP)

    def check(self, body: Body, cut: Any, machine: Arch) -> None:
        super().check(body, cut, machine)
        view, size = self.view(body, machine), DTYPE_BYTES[body.inputs[0].type.dtype]
        if cut.access % size:
            raise VerifyError(f"transpose: access must be a multiple of {size}, not {cut.access}")
        if not cut.side:
            return
        if view.turn.keeps_last:
            raise VerifyError("transpose: side must be 0: rows stay as they are")
        if (cut.side, cut.access) != (WARP, size) or cut.block % WARP:
            raise VerifyError(
                f"transpose: a side is {WARP} elements, access {size} and block a multiple of "
                f"{WARP}, not {cut.side}, {cut.access} and {cut.block}"
            )
        if cut.grid != view.squares(cut.side):
            (stage,) = self.stages(body, cut, machine)
            raise VerifyError(f"{stage}: grid must be {view.squares(cut.side)} here")

    def shared(self, body: Body, cut: TransposeCut) -> int:
        return cut.side * cut.row * DTYPE_BYTES[body.inputs[0].type.dtype]

    def view(self, body: Body, machine: Arch) -> TurnView:
        return turn_view(body)
