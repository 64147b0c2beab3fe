"""How C adds up all elements: sums of chunks into the workspace, then the sum of those."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import rows_dtype, rows_operand
from noeira.codegen.c import anchor as c
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import option, written
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# Elements of a sum that are added together before the partial sums are.
SUM_CHUNK = 4096


@dataclass(frozen=True)
class TotalCut:
    """size: elements of a chunk; split: whether threads share chunks, and one of them then adds up
    in a stage of its own.
    """

    size: int = option()
    split: bool = option(False)


class Total(c.CAnchor):
    """One thread does few elements, in one chunk."""

    Cut = TotalCut

    def rule(self, body: Body, machine: ISA) -> TotalCut:
        size = rows_operand(body).type.size
        return TotalCut(SUM_CHUNK, True) if c.splits(size // 2) else TotalCut(size)

    def stages(self, body: Body, cut: TotalCut, machine: ISA) -> tuple[Stage, ...]:
        if not cut.split:
            return (Stage(body.stem, written(cut)),)
        return Stage("chunks", written(cut)), Stage("total")

    def scratch(self, body: Body, cut: TotalCut) -> tuple[Room, ...]:
        size = rows_operand(body).type.size
        return (Room("partial", rows_dtype(body), pieces_of(size, cut.size)),)
