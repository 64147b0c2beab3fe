"""How C sorts random keys."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor, SplitCut, splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import written
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES


class Shuffle(CAnchor):
    """The keys, which threads share; then one thread sorts them to and fro between two places."""

    stem = "shuffle"

    def rule(self, body: Body, machine: ISA) -> SplitCut:
        return SplitCut(splits(body.outputs[0].type.size))

    def stages(self, body: Body, cut: SplitCut, machine: ISA) -> tuple[Stage, ...]:
        return Stage("keys", written(cut)), Stage("sort")

    def workspace(self, body: Body, cut: SplitCut) -> int:
        return body.outputs[0].type.size * (2 * DTYPE_BYTES["i64"] + DTYPE_BYTES["i32"])

    def view(self, body: Body, machine: ISA) -> None:
        """The numbers of the attributes are all there is."""
