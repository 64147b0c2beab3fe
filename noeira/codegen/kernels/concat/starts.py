"""Where the operands of a concatenation begin."""

from __future__ import annotations

from itertools import accumulate

from noeira.ir.body import Body


def starts(body: Body) -> tuple[int, ...]:
    """The column of the result at which each operand begins."""
    return tuple(accumulate((v.type.shape[-1] for v in body.inputs[:-1]), initial=0))
