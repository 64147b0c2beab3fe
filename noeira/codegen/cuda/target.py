"""The CUDA target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import ACCESS_BYTES, ARCHS, Arch
from noeira.codegen.cuda.moving import Moving
from noeira.codegen.cuda.row import Row
from noeira.codegen.cuda.row_total import RowTotal
from noeira.codegen.defaults import Defaults
from noeira.codegen.target import Target
from noeira.errors import VerifyError
from noeira.ir.plan import Plan, call_text, place_text

if TYPE_CHECKING:
    from noeira.codegen.source import Source

DEFAULTS = Defaults(rows=Row(), row_totals=RowTotal(), moves=Moving(), others=CudaAnchor())


@dataclass(frozen=True)
class CudaTarget(Target):
    """CUDA for one kind of GPU, with the choices of a table where it has them."""

    machine: Arch
    language = "cuda"
    machines = ARCHS
    defaults = DEFAULTS

    def check_places(self, plan: Plan) -> None:
        """Values and workspaces begin at whole accesses."""
        places = [(place_text(place), place.offset) for place in plan.places]
        workspaces = [(call_text(call), call.workspace) for call in plan.calls]
        for text, offset in (*places, *workspaces):
            if offset % ACCESS_BYTES:
                raise VerifyError(
                    f"{text}: for {plan.target} it must begin at a multiple of {ACCESS_BYTES} "
                    f"bytes, so many being read and written at a time: copy a view that does not"
                )

    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        from noeira.codegen.cuda.render import render_cuda

        return render_cuda(name, plans, self, earlier)
