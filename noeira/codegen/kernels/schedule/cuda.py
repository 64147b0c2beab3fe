"""How CUDA reckons a schedule."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.kernels.schedule.code import ScheduleView, view
from noeira.ir.body import Body


class Schedule(CudaAnchor):
    """One number, by one thread."""

    stem = "schedule"

    def view(self, body: Body, machine: Arch) -> ScheduleView:
        return view(body)
