"""The C target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.c.anchor import CAnchor, Row
from noeira.codegen.c.isa import ISA, ISAS
from noeira.codegen.c.moving import Moving
from noeira.codegen.c.row_total import RowTotal
from noeira.codegen.defaults import Defaults
from noeira.codegen.target import Target
from noeira.ir.plan import Plan

if TYPE_CHECKING:
    from noeira.codegen.source import Source

DEFAULTS = Defaults(rows=Row(), row_totals=RowTotal(), moves=Moving(), others=CAnchor())


@dataclass(frozen=True)
class CTarget(Target):
    """C for one kind of vector unit, with the choices of a table where it has them."""

    machine: ISA
    language = "c"
    machines = ISAS
    defaults = DEFAULTS

    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        from noeira.codegen.c.render import render_c

        return render_c(name, plans, self, earlier=earlier)
