"""How C moves elements as they are, of any dtype."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor, SplitCut, splits
from noeira.codegen.c.isa import ISA
from noeira.ir.body import Body
from noeira.ir.types import FLOATS


class Moving(CAnchor):
    """Threads share the result: what is left out is no work."""

    dtypes = frozenset(FLOATS)

    def rule(self, body: Body, machine: ISA) -> SplitCut:
        return SplitCut(splits(body.outputs[0].type.size))
