"""What sums of cells and of windows are weighed by."""

from __future__ import annotations

from typing import Any

from noeira.codegen.anchor import anchor_of
from noeira.ir.body import Body
from noeira.ir.graph import Node
from noeira.ir.ops.pooling import WindowSpread


def is_turned(body: Body) -> bool:
    """Whether it is cells that are made, of the windows that have them."""
    return isinstance(anchor_of(body).op, WindowSpread)


def weighed(node: Node) -> dict[str, Any]:
    """The weights as a view has them."""
    attrs: Any = node.attrs
    return {"scale": attrs.scale, "mean": attrs.mean}
