"""What one kernel can be. `FORMS` is the whole list; a form answers with the reason it refuses a
body, or with "".

`nn` asks when a fused type is made, `fuse` when it joins nodes, `codegen` when it makes a kernel.
An op says itself what its kernel takes: `takes` of `noeira.ir.op.Op`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noeira.ir.body import Body, Phases, joined
from noeira.ir.graph import Node
from noeira.ir.phasing import kind_of, rows_of, runs_by_rows, seen_through, shape_of
from noeira.ir.types import computed, computed_in


@dataclass(frozen=True)
class Form:
    """A shape of kernel: its name, and the predicate over the phases of one."""

    name: str
    fits: Callable[[Phases], str]


def map_form(phases: Phases) -> str:
    """Any chain of element-wise ops over one number of elements."""
    return second(phases) or map_body(phases.bodies[0])


def anchor_form(phases: Phases) -> str:
    """One op that is not element-wise, with element-wise ops over its rows before it, and over its
    result after it, where its kernel takes them.
    """
    return second(phases) or anchor_body(phases.bodies[0])


def phases_form(phases: Phases) -> str:
    """Several phases, each of which is as one of the first two forms. A product is the first or the
    last that is not element-wise; what follows the first reads what is made before it, or is over
    the columns of a batch and something follows it.
    """
    if not phases.several:
        return "there is nothing that waits for another"
    for body in phases.bodies:
        if reason := anchor_body(body) if body.anchor else map_body(body):
            return reason
    numbers = [number for number, body in enumerate(phases.bodies) if body.anchor]
    for number in numbers:
        anchor = phases.bodies[number].anchor
        assert anchor is not None
        if kind_of(anchor) == "alone" or (kind_of(anchor) != "column" and not anchor.op.takes):
            return f"{anchor.op.name} is a kernel of its own"
        if kind_of(anchor) == "contraction" and number not in (numbers[0], numbers[-1]):
            return f"{anchor.op.name} stands between ops that are not element-wise"
    last = phases.bodies[-1]
    return ending(phases) if last.anchor is None else gaining(phases, numbers)


def ending(phases: Phases) -> str:
    """Which op of a last, element-wise phase could stand behind the anchor of the one before, did
    its kernel take it.
    """
    *_, before, last = phases.bodies
    maker = before.anchor
    if maker is None or "tail" in maker.op.takes:
        return ""
    if any(shape_of(part) != shape_of(maker) for part in last.head):
        return ""
    return f"the kernel of {maker.op.name} takes nothing after it, such as {last.head[0].op.name}"


def gaining(phases: Phases, numbers: Sequence[int]) -> str:
    """Why an anchor behind others gains nothing: it and its ops before and after it read nothing
    that an earlier phase makes, but as it lies in memory.
    """
    made, last = set[str](), len(phases.bodies) - 1
    for number, body in enumerate(phases.bodies):
        anchor = body.anchor
        if number > numbers[0] and anchor is not None and not body.head:
            followed = number < last and kind_of(anchor) == "column"
            read = any(v.name in made for part in body.tail for v in part.inputs)
            if not followed and not read:
                name, maker = anchor.op.name, phases.bodies[number - 1].parts[-1].op.name
                why = "no element-wise op over its rows follows"
                return f"{name} after {maker} gains nothing: {why}"
        made |= {v.name for v in body.outputs}
    return ""


def second(phases: Phases) -> str:
    """Which part would begin a second phase."""
    if not phases.several:
        return ""
    return f"{phases.bodies[1].parts[0].op.name} waits for another phase"


def map_body(body: Body) -> str:
    """Why a phase is no chain of element-wise ops; empty if it is."""
    if body.anchor is not None:
        return f"{body.anchor.op.name} is not element-wise"
    return same_dtype(body.head, part_dtype(body.head[0]), body.head[0].op.name)


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
    name, rows = body.anchor.op.name, body.anchor.inputs[body.anchor.op.rows_at]
    if body.head and "head" not in body.anchor.op.takes:
        makes_rows = any(rows.name == v.name for part in body.head for v in part.outputs)
        why = "put it into the type before it" if makes_rows else "it lies in memory all the same"
        return f"{body.head[0].op.name} before {name} gains nothing: {why}"
    dtype = computed(rows.type.dtype)
    return elsewhere(body) or same_dtype(body.head, dtype, name) or by_rows(body)


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
    shape = rows_of(body.anchor).shape
    columns = shape[-1] if shape else 1
    for part in body.head:
        for value in part.inputs:
            if value.name not in made and not runs_by_rows(part, value, columns):
                return (
                    f"{part.op.name} repeats {value.type} within the {columns} elements that "
                    f"{op.name} takes as a row"
                )
    return ""


def after(body: Body) -> str:
    """Why the anchor does not take the tail."""
    assert body.anchor is not None
    name, made = body.anchor.op.name, body.anchor.outputs[0].type
    if body.tail and "tail" not in body.anchor.op.takes:
        return f"the kernel of {name} takes nothing after it, such as {body.tail[0].op.name}"
    columns = made.shape[-1] if made.shape else 1
    for part in body.tail:
        for value in part.inputs:
            if not runs_by_rows(part, value, columns):
                return (
                    f"{part.op.name} repeats {value.type} within the {columns} elements of a row "
                    f"that {name} gives"
                )
    return same_dtype(body.tail, computed(made.dtype), name)


FORMS = (
    Form("map", map_form),
    Form("anchor", anchor_form),
    Form("phases", phases_form),
)


def connected(parts: Sequence[Node]) -> str:
    """Why nodes are no one piece of work: each must read what another makes, or make what another
    reads, and so on to the first.
    """
    parts = seen_through(parts)
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
        return phases_form(phases)
    body = phases.bodies[0]
    return anchor_body(body) if body.anchor else map_body(body)
