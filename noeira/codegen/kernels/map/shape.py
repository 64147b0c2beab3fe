"""The elements that element-wise ops run over."""

from __future__ import annotations

import math

from noeira.codegen.lower import access_of
from noeira.ir.body import Body
from noeira.ir.forms import part_dtype


def map_shape(body: Body) -> tuple[str, int, int]:
    """The dtype that is computed in; and one row of all elements, or rows as long as the shortest
    operand that is repeated.
    """
    shape = body.head[0].outputs[0].type.shape
    size = math.prod(shape)
    repeated = (v.type.size for v in body.inputs if access_of(v, shape) == "row")
    columns = min(repeated, default=size)
    return part_dtype(body.head[0]), size // columns, columns
