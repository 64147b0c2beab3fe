"""The elements that element-wise ops run over."""

from __future__ import annotations

import math

from noeira.codegen.lower import access_of
from noeira.ir.body import Body


def map_shape(body: Body) -> tuple[str, int, int]:
    """The dtype; and one row of all elements, or rows as long as the shortest operand that is
    repeated.
    """
    shape = body.head[0].outputs[0].type.shape
    size = math.prod(shape)
    repeated = (v.type.size for v in body.inputs if access_of(v, shape) == "row")
    columns = min(repeated, default=size)
    return body.outputs[0].type.dtype, size // columns, columns
