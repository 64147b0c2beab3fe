"""What both languages make of a schedule: the text of its rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from noeira.codegen.anchor import anchor_of
from noeira.codegen.numbers import number_text
from noeira.ir.body import Body
from noeira.ir.ops.schedule import Schedule
from noeira.ir.scalar import variables


@dataclass(frozen=True)
class ScheduleView:
    """What the template sees.

    rate: C text over the doubles `lr` and `u`; reads: which of them are in it.
    """

    rate: str
    reads: tuple[str, ...]


def view(body: Body) -> ScheduleView:
    """The rate of a body's schedule. Raises VerifyError for a function that there is not."""
    node = anchor_of(body)
    rule = cast(Schedule, node.op)
    expression = rule.expression(node.attrs)
    return ScheduleView(number_text(expression, rule.name), variables(expression))
