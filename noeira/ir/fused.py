"""The one generic fused op: a kernel made of a body of plain nodes, which is its definition."""

from __future__ import annotations

from noeira.errors import VerifyError
from noeira.ir.graph import Attrs, Node, Origin, Value
from noeira.ir.op import Op


class Fused(Op):
    """One kernel that does what its body says; `inline` opens it."""

    name = "fused"


def close(body: tuple[Node, ...], read_outside: set[str], origin: Origin) -> Node:
    """The fused node of a body: its inputs come from outside, its outputs are the values read outside, in order."""
    made = {v.name for part in body for v in part.outputs}
    inputs = dict.fromkeys(v for part in body for v in part.inputs if v.name not in made)
    outputs = tuple(v for part in body for v in part.outputs if v.name in read_outside)
    from noeira.ir.op import op

    return Node(op("fused"), tuple(inputs), outputs, Attrs(), origin, body[0].group, body)


def check_body(node: Node) -> None:
    """Raises VerifyError if the body is not what the fused node says it is."""
    known: dict[str, Value] = {v.name: v for v in node.inputs}
    for part in node.body:
        for value in part.inputs:
            if known.get(value.name) != value:
                raise VerifyError(f"the body reads {value}, which neither it nor its inputs define")
        for value in part.outputs:
            if value.name in known:
                raise VerifyError(f"the body defines {value} twice")
            known[value.name] = value
        if part.group != node.group:
            raise VerifyError(f"the body joins groups {part.group!r} and {node.group!r}")
    for value in node.outputs:
        if known.get(value.name) != value:
            raise VerifyError(f"no body line defines {value}")
