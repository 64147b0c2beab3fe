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


def views_of(nodes: Iterable[Node]) -> dict[str, Node]:
    """The views that lie in what they read, by the names of their results."""
    return {n.outputs[0].name: n for n in nodes if isinstance(n.storage, Inside)}


def viewed(view: Node) -> Value:
    """What a view lies in."""
    assert isinstance(view.storage, Inside)
    return view.inputs[view.storage.operand]


def is_whole(view: Node) -> bool:
    """Whether a view is of all that it lies in."""
    return viewed(view).type.size == view.outputs[0].type.size


def partial_view(parts: Iterable[Node]) -> str:
    """Which of the nodes is a view that no kernel has inside; "" if none is."""
    part = next((view for view in views_of(parts).values() if not is_whole(view)), None)
    if part is None:
        return ""
    return f"{part.op.name} views a part of what it reads; inside a kernel, views are of all of it"


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
                value = viewed(view)
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
    group, region = body[0].group, body[0].region
    return Node(op("fused"), tuple(inputs), outputs, Attrs(), origin, group, body, region)


def check_body(node: Node) -> None:
    """Raises VerifyError if the body is not what the fused node says it is."""
    if not node.group:
        raise VerifyError("nodes were fused, but no type asked for it")
    known: dict[str, Value] = {v.name: v for v in node.inputs}
    for part in node.body:
        if part.group != node.group:
            raise VerifyError(f"the body joins groups {part.group!r} and {node.group!r}")
        if part.region != node.region:
            raise VerifyError(f"the body joins regions {part.region!r} and {node.region!r}")
        for value in part.inputs:
            if value.name not in known:
                raise VerifyError(f"the body reads {value}, which neither it nor its inputs define")
            if known[value.name] != value:
                other = known[value.name].type
                raise VerifyError(
                    f"{value} is {other} above, and the body reads it as {value.type}"
                )
        for value in part.outputs:
            if value.name in known:
                raise VerifyError(f"the body defines {value} twice")
            known[value.name] = value
    made = {v.name: v.type for part in node.body for v in part.outputs}
    for value in node.outputs:
        if value.name not in made:
            raise VerifyError(f"no line of the body defines {value}")
        if made[value.name] != value.type:
            raise VerifyError(f"{value} is {made[value.name]} in the body, {value.type} outside")
