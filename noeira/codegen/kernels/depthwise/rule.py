"""The static rule that cuts a convolution channel by channel, and what is read of a plan."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import check_stages, read_cut
from noeira.codegen.kernels.depthwise.cut import (
    MOST_WIDTH,
    STAGE,
    DepthwiseCut,
    DepthwiseOptions,
    depthwise_cut,
)
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# What lines of places of a slot read stays in the L2 cache.
SLOT_BYTES = 1 << 18
# Work is shared by threads from so many operations on.
SHARED_FLOPS = 32_768


def choose(
    role: str, geometry: Geometry, dtype: str, isa: ISA, headed: bool = False
) -> DepthwiseCut:
    """The cut for one of the three ops; headed: whether the image is made by a head."""
    cut = depthwise_cut(role, geometry, dtype, isa, DepthwiseOptions(width=1), headed)
    split = cut.flops >= SHARED_FLOPS
    options = DepthwiseOptions(width=width_of(cut), lines=lines_of(cut), split=split)
    return replace(cut, options=options)


def width_of(cut: DepthwiseCut) -> int:
    """Neighbouring places that are made together: as many as registers allow, and few left over."""
    line = max(cut.lines, key=lambda line: len(line.walk.taps))
    first, last = line.inside
    inside = max(last - first, 1)

    def cost(width: int) -> tuple[int, int]:
        return inside // width * (width + 1) + inside % width * 3, -width

    return min(range(1, min(MOST_WIDTH, inside, cut.registers // 2 - 2) + 1), key=cost)


def lines_of(cut: DepthwiseCut) -> int:
    """Lines of a slot."""
    if not cut.summed:
        return 0
    line = cut.lines[0]
    places = line.axis.count + line.axis.size * line.axis.stride
    line_bytes = places * cut.channels * DTYPE_BYTES[cut.dtype]
    return min(max(SLOT_BYTES // line_bytes, 1), line.count)


def read(
    role: str,
    geometry: Geometry,
    dtype: str,
    isa: ISA,
    headed: bool,
    stages: tuple[Stage, ...],
) -> DepthwiseCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options = read_cut(DepthwiseOptions, stages)
    cut = depthwise_cut(role, geometry, dtype, isa, options, headed)
    most = cut.lines[0].count
    if cut.summed and not 0 < cut.options.lines <= most:
        raise VerifyError(f"{STAGE}: lines must be a whole number from 1 to {most}")
    if not cut.summed and cut.options.lines:
        raise VerifyError(f"{STAGE}: lines must be 0 here: only sums for a weight have slots")
    check_stages(DepthwiseOptions, stages, cut.stages())
    return cut
