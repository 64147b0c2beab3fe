"""The one generic fused op: a kernel made of a body of plain nodes, which is its definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from noeira.errors import ShapeError, VerifyError
from noeira.ir.graph import Attrs, Node, Origin, Value
from noeira.ir.op import Op, op
from noeira.ir.storage import Inside
from noeira.ir.types import TensorType


class Fused(Op):
    """One kernel that does what its body says; `inline` opens it."""

    name, operands = "fused", ("operands",)

    def infer(self, attrs: Attrs, *operands: TensorType) -> tuple[TensorType, ...]:
        raise ShapeError(
            "fused: a kernel is a body of plain nodes; it has no shape rule without one"
        )


def reshaping(nodes: Iterable[Node]) -> dict[str, Node]:
    """The views of all that they read, by the names of their results."""
    return {
        node.outputs[0].name: node
        for node in nodes
        if isinstance(node.storage, Inside)
        and node.storage.offset == 0
        and node.inputs[node.storage.operand].type.size == node.outputs[0].type.size
    }


def with_views(members: tuple[Node, ...], views: Mapping[str, Node]) -> tuple[Node, ...]:
    """Nodes in order, and before each that reads what an earlier one makes in another shape, the
    views that it reads it through.
    """
    if not views:
        return members
    made, found = set[str](), dict[tuple[Value, ...], Node]()
    for node in members:
        for value in node.inputs:
            seen = list[Node]()
            while (view := views.get(value.name)) and view.group == node.group:
                seen.insert(0, view)
                value = view.inputs[0]
            if value.name in made:
                found |= {view.outputs: view for view in seen}
        made |= {v.name for v in node.outputs}
        found[node.outputs] = node
    return tuple(found.values())


def close(body: tuple[Node, ...], read_outside: Set[str], origin: Origin) -> Node:
    """The fused node of a body: its inputs come from outside, its outputs are the values read
    outside, in order; a view of one of them stands outside, too, if it is read there.
    """
    made = {v.name for part in body for v in part.outputs}
    inputs = dict.fromkeys(v for part in body for v in part.inputs if v.name not in made)
    launching = (part for part in body if part.launches)
    outputs = tuple(v for part in launching for v in part.outputs if v.name in read_outside)
    return Node(op("fused"), tuple(inputs), outputs, Attrs(), origin, body[0].group, body)


def check_body(node: Node) -> None:
    """Raises VerifyError if the body is not what the fused node says it is."""
    if not node.group:
        raise VerifyError("nodes were fused, but no type asked for it")
    known: dict[str, Value] = {v.name: v for v in node.inputs}
    for part in node.body:
        if part.group != node.group:
            raise VerifyError(f"the body joins groups {part.group!r} and {node.group!r}")
        for value in part.inputs:
            if known.get(value.name) != value:
                raise VerifyError(f"the body reads {value}, which neither it nor its inputs define")
        for value in part.outputs:
            if value.name in known:
                raise VerifyError(f"the body defines {value} twice")
            known[value.name] = value
    made = {v.name for part in node.body for v in part.outputs}
    for value in node.outputs:
        if value.name not in made or known[value.name] != value:
            raise VerifyError(f"no line of the body defines {value}")
