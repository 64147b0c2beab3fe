"""The CUDA target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.row import Row
from noeira.codegen.target import Target
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.plan import Plan

if TYPE_CHECKING:
    from noeira.codegen.source import Source

DEFAULT = CudaAnchor()
DEFAULT_ROWS = Row()


@dataclass(frozen=True)
class CudaTarget(Target):
    """CUDA for one kind of GPU.

    choices: a table of tuned choices; there is none for CUDA so far.
    """

    arch: Arch
    choices: Choices = NO_CHOICES
    language = "cuda"
    default = DEFAULT
    default_rows = DEFAULT_ROWS

    @property
    def machine(self) -> Arch:
        """The GPU."""
        return self.arch

    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        from noeira.codegen.cuda.render import render_cuda

        return render_cuda(name, plans, self, earlier)
