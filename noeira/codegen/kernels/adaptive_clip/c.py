"""How C runs the kernel `adaptive_clip`."""

from __future__ import annotations

from noeira.codegen.c import anchor as c
from noeira.codegen.c import total
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CRows
from noeira.codegen.kernels.adaptive_clip.pieces import SpansView, spans_of, squares
from noeira.codegen.scratch import Room
from noeira.ir.body import Body


class AdaptiveClip(total.Total):
    """Sums of squares of pieces of ranges, which threads share by elements, then their sums by
    range.
    """

    stem = "adaptive_clip"

    def rule(self, body: Body, machine: ISA) -> total.TotalCut:
        return total.TotalCut(total.SUM_CHUNK, c.splits(spans_of(body).elements))

    def scratch(self, body: Body, cut: total.TotalCut) -> tuple[Room, ...]:
        return squares(body, cut.size)

    def view(self, body: Body, machine: ISA) -> SpansView[CRows]:
        spans, grid = spans_of(body), super().view(body, machine)
        return SpansView(spans.begins, spans.lengths, grid)
