"""The CUDA target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import ARCHS, Arch
from noeira.codegen.cuda.row import Row
from noeira.codegen.target import Target
from noeira.ir.plan import Plan

if TYPE_CHECKING:
    from noeira.codegen.source import Source

DEFAULT = CudaAnchor()
DEFAULT_ROWS = Row()


@dataclass(frozen=True)
class CudaTarget(Target):
    """CUDA for one kind of GPU, with the choices of a table where it has them."""

    machine: Arch
    language = "cuda"
    machines = ARCHS
    default = DEFAULT
    default_rows = DEFAULT_ROWS

    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        from noeira.codegen.cuda.render import render_cuda

        return render_cuda(name, plans, self, earlier)
