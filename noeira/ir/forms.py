"""What one kernel can be. `FORMS` is the whole list; a form answers with the reason it refuses a
body, or with "".

`nn` asks when a fused type is made, `fuse` when it joins nodes, `codegen` when it picks a template.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noeira.ir.graph import Node

Body = tuple[Node, ...]


@dataclass(frozen=True)
class Form:
    """A shape of kernel: its name, and the predicate over bodies."""

    name: str
    refuses: Callable[[Body], str]


def map_form(body: Body) -> str:
    """Any chain of element-wise ops over one shape."""
    for node in body:
        if node.op.kind != "map":
            return f"{node.op.name} is not element-wise"
    shape = body[0].outputs[0].type.shape
    for node in body:
        if node.outputs[0].type.shape != shape:
            return f"{node.op.name} has another shape than {body[0].op.name}"
    return ""


def contraction_form(body: Body) -> str:
    """A contraction, then element-wise ops of its result's shape, done as each tile is stored."""
    anchor, *tail = body
    if anchor.op.kind != "contraction":
        later = next((node.op.name for node in tail if node.op.kind == "contraction"), "")
        if not later:
            return f"{anchor.op.name} is not a contraction"
        return f"{anchor.op.name} before {later} gains nothing: put it into the type before it"
    shape = anchor.outputs[0].type.shape
    for node in tail:
        if node.op.kind == "contraction":
            return (
                f"{node.op.name} after {anchor.op.name} is a second contraction; a kernel has one"
            )
        if node.op.kind != "map":
            return f"{node.op.name} is not element-wise"
        if node.outputs[0].type.shape != shape:
            return f"{node.op.name} has another shape than the result of {anchor.op.name}"
    return ""


def column_form(body: Body) -> str:
    """Element-wise ops over one shape, then a column sum of what they give, in one pass over the
    rows.
    """
    *head, anchor = body
    if anchor.op.kind != "column":
        return f"{anchor.op.name} is not a column sum"
    return map_form(tuple(head)) if head else ""


def row_form(body: Body) -> str:
    """A row reduction, or whatever else is a kernel of its own, by itself."""
    if len(body) == 1:
        return ""
    alone = next((node.op.name for node in body if node.op.kind in ("row", "alone")), "")
    return f"{alone} is a kernel of its own" if alone else "more than one op"


FORMS = (
    Form("map", map_form),
    Form("contraction", contraction_form),
    Form("column", column_form),
    Form("row", row_form),
)


def connected(body: Body) -> str:
    """Each node after the first must read something that the body makes."""
    made = {v.name for v in body[0].outputs}
    for node in body[1:]:
        if not any(v.name in made for v in node.inputs):
            return f"{node.op.name} reads nothing that the others give"
        made |= {v.name for v in node.outputs}
    return ""


def form_of(body: Body) -> Form | None:
    """The form that takes this body, if any."""
    if connected(body):
        return None
    return next((form for form in FORMS if not form.refuses(body)), None)


def refusal(body: Body) -> str:
    """Why no form takes this body; empty if one does."""
    if form_of(body):
        return ""
    if reason := connected(body):
        return reason
    kinds = {node.op.kind for node in body}
    if kinds & {"row", "alone"}:
        return row_form(body)
    if "contraction" in kinds:
        return contraction_form(body)
    return column_form(body) if "column" in kinds else map_form(body)
