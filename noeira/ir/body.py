"""The parts of a kernel by role: element-wise ops, at most one other, element-wise ops after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noeira.ir.graph import Node, Value


@dataclass(frozen=True)
class Body:
    """What a kernel does: the `head`, then the `anchor`, the part that is not element-wise, if
    there is one, then the `tail`.

    inputs, outputs: what it reads from memory and what it gives; fused, the inputs of the anchor
    are among these in any order, or made by the head.
    """

    head: tuple[Node, ...]
    anchor: Node | None
    tail: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        """All of them, in order."""
        return (*self.head, *([self.anchor] if self.anchor else ()), *self.tail)

    @property
    def stem(self) -> str:
        """The stem of the kernel's template: the anchor's, or `map`."""
        return self.anchor.op.template if self.anchor else "map"

    @property
    def moved_bytes(self) -> int:
        """Bytes of all that it reads and gives."""
        return sum(v.type.nbytes for v in (*self.inputs, *self.outputs))


def body_of(node: Node) -> Body:
    """The parts of a node, fused or not."""
    return divided(node.parts, node.inputs, node.outputs)


def joined(parts: Sequence[Node]) -> Body:
    """Parts that may become one node, of which every result is given."""
    made = {v.name for part in parts for v in part.outputs}
    inputs = dict.fromkeys(v for part in parts for v in part.inputs if v.name not in made)
    return divided(parts, tuple(inputs), tuple(v for part in parts for v in part.outputs))


def divided(parts: Sequence[Node], inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Body:
    """Parts divided at the first that is not element-wise: the tail may hold more of them, which no
    form takes.
    """
    at = next((i for i, part in enumerate(parts) if part.op.kind != "map"), len(parts))
    anchor = parts[at] if at < len(parts) else None
    return Body(tuple(parts[:at]), anchor, tuple(parts[at + 1 :]), inputs, outputs)
