"""How C copies rows of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.c.anchor import CAnchor, splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import LINE_BYTES
from noeira.codegen.cut import option
from noeira.codegen.rows import pieces_of
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import FLOATS

# How far ahead of the copy memory is asked for the rows of a data set.
AHEAD_BYTES = 1 << 13
AHEAD_ROWS = 16
# Of a row so many cache lines: the processor itself finds out that more follow.
AHEAD_LINES = 8


@dataclass(frozen=True)
class TakeCut:
    """ahead: how many rows before it is copied memory is asked for a row; lines: for so many cache
    lines of it; split: whether threads share rows.
    """

    ahead: int = option(least=0)
    lines: int = option()
    split: bool = option(False)


class Take(CAnchor):
    """Memory is asked for the beginnings of rows some rows ahead."""

    stem = "take"
    Cut = TakeCut
    dtypes = frozenset(FLOATS)

    def rule(self, body: Body, machine: ISA) -> TakeCut:
        row_bytes = row_bytes_of(body)
        ahead = min(max(AHEAD_BYTES // row_bytes, 1), AHEAD_ROWS)
        lines = min(pieces_of(row_bytes, LINE_BYTES), AHEAD_LINES)
        return TakeCut(ahead, lines, splits(body.outputs[0].type.size))

    def check(self, body: Body, cut: TakeCut, machine: ISA) -> None:
        most = pieces_of(row_bytes_of(body), LINE_BYTES)
        if cut.lines > most:
            raise VerifyError(f"take: lines must be at most {most}, as many as a row has")


def row_bytes_of(body: Body) -> int:
    """Bytes of a row."""
    type = body.outputs[0].type
    return type.nbytes // type.shape[0]
