"""What one kernel can be: the reason that nodes are not one, or "".

`nn` asks when a fused type is made, `fuse` when it joins nodes, `codegen` when it makes a kernel.
An op says itself what its kernel takes: `kind` and `takes` of `noeira.ir.op.Op`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from noeira.ir.body import Body, Phases, joined
from noeira.ir.fused import partial_view
from noeira.ir.graph import Node, Value
from noeira.ir.phasing import Order
from noeira.ir.types import computed, computed_in


def refusal(parts: Sequence[Node], given: Sequence[Value] = ()) -> str:
    """Why nodes are not one kernel; "" if they are. given: what is known to be read outside."""
    order = Order(parts, given)
    phases = joined(parts, order)
    fault = several_phases if phases.several else one_phase
    return partial_view(parts) or connected(order) or fault(phases)


def connected(order: Order) -> str:
    """Why parts are no one piece of work: each must read what another makes, or make what another
    reads, and so on to the first.
    """
    reached, pending = {0}, [0]
    while pending:
        one = pending.pop()
        near = {*(maker for maker, _ in order.reads[one]), *order.readers[one]} - reached
        reached |= near
        pending += near
    apart = next((part for i, part in enumerate(order.parts) if i not in reached), None)
    return f"{apart.op.name} reads nothing that the others give" if apart else ""


def one_phase(phases: Phases) -> str:
    """One phase: any chain of element-wise ops over one number of elements; or one op that is not
    element-wise, with those over its rows before it, and over its result after it, where its
    kernel takes them.
    """
    (body,) = phases.bodies
    return one_dtype(body)


def several_phases(phases: Phases) -> str:
    """Several phases, each like a lone one. A product is the first or the last that is not
    element-wise, and does not follow another; what follows the first reads what is made before
    it, or is over the columns of a batch and something follows it.
    """
    for body in phases.bodies:
        if reason := one_dtype(body):
            return reason
    anchors = [body.anchor for body in phases.bodies if body.anchor]
    last = ending if phases.bodies[-1].anchor is None else gaining
    return own_kernel(anchors) or products(anchors) or last(phases)


def own_kernel(anchors: Sequence[Node]) -> str:
    """Which op's kernel does nothing else."""
    for anchor in anchors:
        if anchor.kind.alone or not (anchor.kind.by_columns or anchor.op.takes):
            return f"{anchor.op.name} is a kernel of its own"
    return ""


def products(anchors: Sequence[Node]) -> str:
    """Which product stands where none may."""
    for before, anchor in pairwise(anchors):
        if before.kind == anchor.kind and anchor.kind.once:
            name, kind = anchor.op.name, anchor.kind.name
            return f"{name} after {before.op.name} is a second {kind}; a kernel has one"
    for anchor in anchors[1:-1]:
        if anchor.kind.once:
            return f"{anchor.op.name} stands between ops that are not element-wise"
    return ""


def ending(phases: Phases) -> str:
    """Which op of a last, element-wise phase could stand behind the anchor of the one before, did
    its kernel take it.
    """
    *_, before, last = phases.bodies
    maker = before.anchor
    if maker is None or "tail" in maker.op.takes:
        return ""
    if any(part.outputs[0].type.shape != maker.outputs[0].type.shape for part in last.head):
        return ""
    return f"the kernel of {maker.op.name} takes nothing after it, such as {last.head[0].op.name}"


def gaining(phases: Phases) -> str:
    """Why an anchor behind others gains nothing: it and its ops before and after it read nothing
    that an earlier phase makes, but as it lies in memory. Why the first gains nothing by what is
    before it: nothing else reads that.
    """
    made, bodies, anchored = dict[str, Node](), phases.bodies, False
    for number, body in enumerate(bodies):
        if body.anchor is not None and not body.head:
            followed = anchored and body.anchor.kind.by_columns and number < len(bodies) - 1
            later = body.tail if anchored else (*body.tail, *parts_of(bodies[number + 1 :]))
            if made and not followed and not any(v.name in made for p in later for v in p.inputs):
                return no_gain(made, body.anchor, anchored)
        anchored |= body.anchor is not None
        made |= {v.name: part for part in body.parts for v in part.outputs}
    return ""


def parts_of(bodies: Sequence[Body]) -> tuple[Node, ...]:
    """All that some phases do."""
    return tuple(part for body in bodies for part in body.parts)


def no_gain(made: Mapping[str, Node], anchor: Node, anchored: bool) -> str:
    """What to say of an anchor that does nothing with what is made before it."""
    name, maker = anchor.op.name, list(made.values())[-1].op.name
    if anchored:
        return f"{name} after {maker} gains nothing: it reads from memory what {maker} stores"
    makes_rows = anchor.inputs[anchor.rows_at].name in made
    why = "put it into the type before it" if makes_rows else "it lies in memory all the same"
    return f"{maker} before {name} gains nothing: {why}"


def part_dtype(part: Node) -> str:
    """The dtype that an element-wise op is computed in."""
    return computed_in(v.type.dtype for v in (*part.inputs, *part.outputs))


def one_dtype(body: Body) -> str:
    """Which part of a phase is not computed in the dtype of the others."""
    if body.anchor is None:
        return same_dtype(body.head, part_dtype(body.head[0]), body.head[0].op.name)
    name, rows = body.anchor.op.name, body.anchor.rows
    made = body.anchor.outputs[0].type
    before = same_dtype(body.head, computed(rows.dtype), name)
    return before or same_dtype(body.tail, computed(made.dtype), name)


def same_dtype(parts: Sequence[Node], dtype: str, name: str) -> str:
    """Why element-wise ops are not computed in the dtype of what has that name, if they are not."""
    for part in parts:
        if (own := part_dtype(part)) != dtype:
            return f"{part.op.name} is computed in {own}, {name} in {dtype or 'whole numbers'}"
    return ""
