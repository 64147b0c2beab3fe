"""What a call must at least do: arithmetic, and bytes moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noeira.ir.graph import Node


@dataclass(frozen=True)
class Cost:
    """What a launch must at least do: arithmetic, and bytes moved between kernel and memory."""

    flops: int
    bytes_read: int
    bytes_written: int


def node_cost(node: Node) -> Cost:
    """Cost of a call: a fused node adds the arithmetic of its parts, but moves only what each phase
    of its kernel reads and gives.
    """

    def one(n: Node) -> Cost:
        return n.op.cost(n.attrs, *n.types)

    if not node.body:
        return one(node)
    from noeira.ir.body import phases_of

    bodies = phases_of(node).bodies
    return Cost(
        sum(one(part).flops for part in node.body),
        sum(body.read_bytes for body in bodies),
        sum(v.type.nbytes for body in bodies for v in body.outputs),
    )
