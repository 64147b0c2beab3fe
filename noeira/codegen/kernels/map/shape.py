"""The elements that element-wise ops run over."""

from __future__ import annotations

from noeira.ir.body import Body
from noeira.ir.broadcasting import columns_of, walk_of
from noeira.ir.forms import part_dtype


def map_shape(body: Body) -> tuple[str, int, int]:
    """The dtype that is computed in; and one row of all elements, or the longest rows in which
    every operand has an element for each column, or one for all.
    """
    size, made = body.head[0].outputs[0].type.size, {v.name for p in body.head for v in p.outputs}
    walks = (
        walk_of(value.type.shape, part.outputs[0].type.shape)
        for part in body.head
        for value in part.inputs
        if value.name not in made
    )
    columns = columns_of(walks, size)
    return part_dtype(body.head[0]), size // columns, columns
