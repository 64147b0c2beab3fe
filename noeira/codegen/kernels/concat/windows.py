"""Where the operands of a concatenation lie."""

from __future__ import annotations

from itertools import accumulate, pairwise

from noeira.ir.body import Body


def windows(body: Body) -> tuple[range, ...]:
    """The columns of the result that each operand is."""
    ends = accumulate((v.type.shape[-1] for v in body.inputs), initial=0)
    return tuple(range(start, stop) for start, stop in pairwise(ends))
