"""What one kernel can be. `FORMS` is the whole list; a form answers with the reason it refuses a
body, or with "".

`nn` asks when a fused type is made, `fuse` when it joins nodes, `codegen` when it makes a kernel.
An op says itself what its kernel takes: `takes` of `noeira.ir.op.Op`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noeira.ir.body import ACROSS_ROWS, Body, Phases, joined, kind_of
from noeira.ir.broadcasting import runs_by_columns, walk_of
from noeira.ir.graph import Node
from noeira.ir.types import computed, computed_in


@dataclass(frozen=True)
class Form:
    """A shape of kernel: its name, and the predicate over the phases of one."""

    name: str
    fits: Callable[[Phases], str]


def map_form(phases: Phases) -> str:
    """Any chain of element-wise ops over one shape."""
    return second(phases) or map_body(phases.bodies[0])


def anchor_form(phases: Phases) -> str:
    """One op that is not element-wise, with element-wise ops over one shape before it, and of its
    result's shape after it, where its kernel takes them.
    """
    return second(phases) or anchor_body(phases.bodies[0])


def statistics_form(phases: Phases) -> str:
    """Ops over the columns of a batch, each with a phase of its own if it reads the result of
    another, perhaps element-wise ops over what came out; then element-wise ops over the rows that
    read this, and perhaps one more op that takes them before it. Perhaps first another op, over
    whose result the columns run.
    """
    *before, last = phases.bodies
    if not before:
        return "there is nothing that a whole batch is read for"
    for body in phases.bodies:
        if reason := anchor_body(body) if body.anchor else map_body(body):
            return reason
    for number, body in enumerate(before):
        if body.anchor is not None and kind_of(body.anchor) == "alone":
            return f"{body.anchor.op.name} is a kernel of its own"
        if number and body.anchor is not None and kind_of(body.anchor) != ACROSS_ROWS:
            return f"{body.anchor.op.name} stands between ops over the columns of a batch"
    return last_phase(before[-1], last)


def last_phase(before: Body, last: Body) -> str:
    """Why the last phase is no work over the rows of a batch; empty if it is."""
    if last.anchor is None:
        maker, first = before.anchor, last.head[0]
        if maker is None or first.outputs[0].type.shape != maker.outputs[0].type.shape:
            return ""
        return f"the kernel of {maker.op.name} takes nothing after it, such as {first.op.name}"
    if last.head:
        return ""
    name, maker = last.anchor.op.name, before.parts[-1].op.name
    return f"{name} after {maker} gains nothing: no element-wise op over its rows follows"


def second(phases: Phases) -> str:
    """Which part would begin a second phase."""
    if not phases.several:
        return ""
    return f"{phases.bodies[1].parts[0].op.name} waits for a whole batch"


def map_body(body: Body) -> str:
    """Why a phase is no chain of element-wise ops over one shape; empty if it is."""
    if body.anchor is not None:
        return f"{body.anchor.op.name} is not element-wise"
    return same_shape(body.head)


def same_shape(parts: Sequence[Node]) -> str:
    """Why element-wise ops do not run over one shape in one dtype; empty if they do."""
    for part in parts[1:]:
        if part.outputs[0].type.shape != parts[0].outputs[0].type.shape:
            return f"{part.op.name} has another shape than {parts[0].op.name}"
    return same_dtype(parts, part_dtype(parts[0]), parts[0].op.name) if parts else ""


def part_dtype(part: Node) -> str:
    """The dtype that an element-wise op is computed in."""
    return computed_in(v.type.dtype for v in (*part.inputs, *part.outputs))


def same_dtype(parts: Sequence[Node], dtype: str, name: str) -> str:
    """Why element-wise ops are not computed in the dtype of what has that name, if they are not."""
    for part in parts:
        if (own := part_dtype(part)) != dtype:
            return f"{part.op.name} is computed in {own}, {name} in {dtype or 'whole numbers'}"
    return ""


def anchor_body(body: Body) -> str:
    """Why a phase is no op that is not element-wise, with the ops that its kernel takes around it;
    empty if it is.
    """
    if body.anchor is None:
        return "every op is element-wise"
    if len(body.parts) == 1:
        return ""
    return alone(body) or several(body) or before(body) or after(body)


def alone(body: Body) -> str:
    """Which part takes no others."""
    ops = (part.op for part in body.parts if part.op.kind != "map")
    name = next((op.name for op in ops if not op.takes), "")
    return f"{name} is a kernel of its own" if name else ""


def several(body: Body) -> str:
    """Which part of the tail would be a second anchor."""
    assert body.anchor is not None
    second = next((part for part in body.tail if part.op.kind != "map"), None)
    if second is None:
        return ""
    if kind_of(second) == kind_of(body.anchor):
        what = f"is a second {kind_of(second)}; a kernel has one"
        return f"{second.op.name} after {body.anchor.op.name} {what}"
    return f"{second.op.name} is not element-wise"


def before(body: Body) -> str:
    """Why the anchor does not take the head."""
    assert body.anchor is not None
    if body.head and "head" not in body.anchor.op.takes:
        first, name = body.head[0].op.name, body.anchor.op.name
        return f"{first} before {name} gains nothing: put it into the type before it"
    name, taken = body.anchor.op.name, body.anchor.inputs[body.anchor.op.rows_at].type
    other = next((p for p in body.head if p.outputs[0].type.shape != taken.shape), None)
    if other is not None:
        return f"{other.op.name} has another shape than what {name} takes rows of"
    return elsewhere(body) or same_dtype(body.head, computed(taken.dtype), name) or by_rows(body)


def elsewhere(body: Body) -> str:
    """Which operand the head would make beside that of the anchor's rows."""
    assert body.anchor is not None
    op, maker = body.anchor.op, {v.name: part.op for part in body.head for v in part.outputs}
    for position, value in enumerate(body.anchor.inputs):
        if value.name in maker and position != op.rows_at:
            made, wanted = op.operands[position], op.operands[op.rows_at]
            return (
                f"{maker[value.name].name} makes {made} of {op.name}; its kernel has {wanted} made"
            )
    return ""


def by_rows(body: Body) -> str:
    """Which operand of the head changes where the anchor's kernel takes elements for a row, which
    it reads one by one, or all of one.
    """
    if not body.head:
        return ""
    assert body.anchor is not None
    op, made = body.anchor.op, {v.name for part in body.head for v in part.outputs}
    rows = op.rows(body.anchor.attrs, *(v.type for v in body.anchor.inputs))
    columns = rows.shape[-1] if rows.shape else 1
    for part in body.head:
        for value in part.inputs:
            walk = walk_of(value.type.shape, part.outputs[0].type.shape)
            if value.name not in made and not runs_by_columns(walk, columns):
                return (
                    f"{part.op.name} repeats {value.type} within the {columns} elements that "
                    f"{op.name} takes as a row"
                )
    return ""


def after(body: Body) -> str:
    """Why the anchor does not take the tail."""
    assert body.anchor is not None
    name = body.anchor.op.name
    if body.tail and "tail" not in body.anchor.op.takes:
        return f"the kernel of {name} takes nothing after it, such as {body.tail[0].op.name}"
    shape = body.anchor.outputs[0].type.shape
    others = {v.name for v in body.anchor.outputs[1:]}
    for part in body.tail:
        if other := next((v for v in part.inputs if v.name in others), None):
            return f"{part.op.name} reads {other}, which is not the first result of {name}"
        if part.outputs[0].type.shape != shape:
            return f"{part.op.name} has another shape than the result of {name}"
    return same_dtype(body.tail, computed(body.anchor.outputs[0].type.dtype), name)


FORMS = (
    Form("map", map_form),
    Form("anchor", anchor_form),
    Form("statistics", statistics_form),
)


def connected(parts: Sequence[Node]) -> str:
    """Why nodes are no one piece of work: each must read what another makes, or make what another
    reads, and so on to the first.
    """
    makers = {v.name: i for i, part in enumerate(parts) for v in part.outputs}
    beside: list[list[int]] = [[] for _ in parts]
    for reader, part in enumerate(parts):
        for maker in (makers[v.name] for v in part.inputs if v.name in makers):
            beside[reader].append(maker)
            beside[maker].append(reader)
    reached, pending = {0}, [0]
    while pending:
        near = [number for number in beside[pending.pop()] if number not in reached]
        reached.update(near)
        pending += near
    apart = next((part for i, part in enumerate(parts) if i not in reached), None)
    return f"{apart.op.name} reads nothing that the others give" if apart else ""


def across_views(nodes: Sequence[Node]) -> str:
    """Which part reads what another gives through a view, which no kernel sees through."""
    makers = {v.name: part for part in nodes if part.launches for v in part.outputs}
    seen = dict[str, tuple[Node, Node]]()
    for node in nodes:
        for value in node.inputs:
            if node.launches and value.name in seen:
                maker, view = seen[value.name]
                return (
                    f"{node.op.name} reads what {maker.op.name} gives through {view.op.name}, a "
                    "view, which no kernel sees through: end the fused type before it, or make "
                    f"one op of {maker.op.name} and {node.op.name}"
                )
            if not node.launches and value.name in makers:
                seen |= {v.name: (makers[value.name], node) for v in node.outputs}
            elif not node.launches and value.name in seen:
                seen |= {v.name: seen[value.name] for v in node.outputs}
    return ""


def form_of(parts: Sequence[Node]) -> Form | None:
    """The form that takes these nodes as one kernel, if any."""
    if connected(parts):
        return None
    phases = joined(parts)
    return next((form for form in FORMS if not form.fits(phases)), None)


def refusal(parts: Sequence[Node]) -> str:
    """Why no form takes these nodes as one kernel; empty if one does."""
    if form_of(parts):
        return ""
    if reason := connected(parts):
        return reason
    phases = joined(parts)
    if phases.several:
        return statistics_form(phases)
    body = phases.bodies[0]
    return anchor_body(body) if body.anchor else map_body(body)
