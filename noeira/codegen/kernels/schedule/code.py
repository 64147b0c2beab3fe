"""What both languages make of a schedule: the text of its rate, with a name for what is read more
than once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

from noeira.codegen.anchor import anchor_of
from noeira.codegen.numbers import LIMITS, number_text
from noeira.ir.body import Body
from noeira.ir.ops.schedule import Schedule
from noeira.ir.scalar import COMPARISONS, Expr, parts, var, variables


@dataclass(frozen=True)
class ScheduleView:
    """What the template sees: C text of doubles.

    reads: which of `lr` and `u` are read. shared: names, and the texts that they stand for, each
    over those before it. rate: the text over all of them.
    """

    reads: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]
    rate: str


def view(body: Body) -> ScheduleView:
    """The rate of a body's schedule. Raises VerifyError for a function that there is not."""
    node = anchor_of(body)
    rule = cast(Schedule, node.op)
    expression = rule.expression(node.attrs)
    found, shared = dict[Expr, Expr](), list[tuple[str, str]]()
    read_often = {one for one, count in uses(expression).items() if count > 1}
    for part in parts(expression):
        if not part.operands:
            found[part] = part
            continue
        found[part] = Expr(part.op, tuple(found[arg] for arg in part.operands))
        if part in read_often and part.op not in COMPARISONS:
            name = f"n{len(shared)}"
            shared.append((name, number_text(found[part], rule.name)))
            found[part] = var(name)
    rate = number_text(found[expression], rule.name)
    return ScheduleView(variables(expression), tuple(shared), rate)


def uses(expression: Expr) -> Counter[Expr]:
    """How often each part is written where none has a name: limits write their operands twice."""
    return Counter(
        arg for part in parts(expression) for arg in part.operands * (2 if part.op in LIMITS else 1)
    )
