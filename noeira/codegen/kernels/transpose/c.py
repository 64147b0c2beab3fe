"""How C transposes."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.c.anchor import SplitCut, splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.moving import Moving
from noeira.codegen.cut import option
from noeira.codegen.elements import ELEMENTS
from noeira.codegen.moved import TurnView, turn_view
from noeira.errors import VerifyError
from noeira.ir.body import Body

# Elements along a side of a square: what it reads and writes stays in the L1 cache, and each of its
# rows is some cache lines.
SIDE = 64


@dataclass(frozen=True)
class TransposeCut(SplitCut):
    """side: of the squares that are turned, in elements; 0 where rows are moved as they are."""

    side: int = option(0, least=0)


class Transpose(Moving):
    """Rows as they are, or squares, which are turned in vectors where these have lanes of as many
    bytes.
    """

    stem = "transpose"
    Cut = TransposeCut

    def rule(self, body: Body, machine: ISA) -> TransposeCut:
        view = self.view(body, machine)
        return TransposeCut(splits(view.size), 0 if view.turn.keeps_last else SIDE)

    def check(self, body: Body, cut: TransposeCut, machine: ISA) -> None:
        if bool(cut.side) == self.view(body, machine).turn.keeps_last:
            rule = "must be 0: rows stay as they are" if cut.side else "must be at least 1"
            raise VerifyError(f"transpose: side {rule}, not {cut.side}")

    def view(self, body: Body, machine: ISA) -> TurnView:
        bytes = ELEMENTS[body.inputs[0].type.dtype].bytes
        return turn_view(body, machine.vector_bytes // bytes if bytes in (4, 8) else 1)
