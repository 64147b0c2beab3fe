"""The elements that element-wise ops run over."""

from __future__ import annotations

import math

from noeira.ir.body import Body
from noeira.ir.broadcasting import columns_of, walk_of
from noeira.ir.forms import part_dtype


def map_shape(body: Body) -> tuple[str, int, int]:
    """The dtype that is computed in; and one row of all elements, or the longest rows in which
    every operand has an element for each column, or one for all.
    """
    shape = body.head[0].outputs[0].type.shape
    size = math.prod(shape)
    columns = columns_of((walk_of(v.type.shape, shape) for v in body.inputs), size)
    return part_dtype(body.head[0]), size // columns, columns
