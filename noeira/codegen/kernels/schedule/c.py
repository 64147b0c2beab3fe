"""How C reckons a schedule."""

from __future__ import annotations

from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.schedule.code import ScheduleView, view
from noeira.ir.body import Body


class Schedule(CAnchor):
    """One number, by one thread."""

    stem = "schedule"

    def view(self, body: Body, machine: ISA) -> ScheduleView:
        return view(body)
