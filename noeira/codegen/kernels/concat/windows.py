"""Where the operands of a concatenation lie."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

from noeira.ir.body import Body
from noeira.ir.ops.movement import Concat


@dataclass(frozen=True)
class Windows:
    """The result as rows of what is side by side. parts: the columns that each operand is, what is
    behind the axis counted as columns.
    """

    rows: int
    parts: tuple[range, ...]

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.parts[-1].stop


def windows(body: Body) -> Windows:
    """The rows of a concatenation."""
    node = body.parts[0]
    assert isinstance(node.op, Concat)
    widths = node.op.columns(node.attrs, *(v.type for v in node.inputs))  # type: ignore[arg-type]
    ends = list(accumulate(widths, initial=0))
    parts = tuple(range(start, stop) for start, stop in pairwise(ends))
    return Windows(node.outputs[0].type.size // ends[-1], parts)
