"""How kernels are cut that have no class of their own: by what their ops are."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import Anchor
from noeira.ir.body import Body


@dataclass(frozen=True)
class Defaults:
    """What a language has for them.

    rows: for ops of kind `row`; row_totals: for those of them that have `totals`; moves: for ops
    that move elements; others: for all other ops.
    """

    rows: Anchor
    row_totals: Anchor
    moves: Anchor
    others: Anchor

    def of(self, body: Body) -> Anchor:
        """How a body's kernel is cut."""
        node = body.anchor
        if node is None:
            return self.others
        if node.kind.by_rows:
            return self.row_totals if node.op.totals else self.rows
        return self.moves if node.op.moves else self.others
