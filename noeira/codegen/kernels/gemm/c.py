"""How C runs a matrix product."""

from __future__ import annotations

from collections.abc import Iterable

from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import check_stages, read_cut, written
from noeira.codegen.kernels.gemm.c_rule import choose_gemm
from noeira.codegen.kernels.gemm.c_search import gemm_candidates
from noeira.codegen.kernels.gemm.c_tiles import COPIED_BYTES, TILE_VECTORS, GemmCut, GemmOptions
from noeira.codegen.kernels.gemm.product import (
    Gemm,
    Partition,
    dtype_of,
    gemm_of,
    gemm_problem,
    gemm_tail,
    problem_body,
)
from noeira.codegen.rows import pieces_of
from noeira.codegen.view import Elementwise
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.choices import Problem
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES


class CGemm(CAnchor):
    """Tiles in panels in blocks; blocks that are summed apart are added in a second stage."""

    stem = "gemm"
    Cut = GemmCut

    def rule(self, body: Body, machine: ISA) -> GemmCut:
        return choose_gemm(gemm_of(body), dtype_of(body), machine)

    def stages(self, body: Body, cut: GemmCut, machine: ISA) -> tuple[Stage, ...]:
        return gemm_stages(cut)

    def workspace(self, body: Body, cut: GemmCut) -> int:
        return gemm_workspace(gemm_of(body), cut)

    def view(self, body: Body, machine: ISA) -> Gemm:
        return gemm_of(body)

    def tail(self, body: Body) -> Elementwise:
        return gemm_tail(body)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: ISA) -> GemmCut:
        return gemm_cut(gemm_of(body), stages, dtype_of(body), machine)

    def problem(self, body: Body, target: str) -> Problem:
        return gemm_problem(body, target)

    def body(self, problem: Problem) -> Body:
        return problem_body(problem)

    def candidates(self, body: Body, machine: ISA) -> Iterable[GemmCut]:
        return gemm_candidates(gemm_of(body), dtype_of(body), machine)


def gemm_stages(cut: GemmCut) -> tuple[Stage, ...]:
    """The stages of a product that is cut so."""
    stage = Stage("gemm", written(cut.options))
    if not cut.apart:
        return (stage,)
    return stage, Stage("total", (("split", True),) if cut.split else ())


def gemm_workspace(gemm: Gemm, cut: GemmCut) -> int:
    """Bytes for the sums of blocks that are made apart, and for those between blocks if no output
    can hold them.
    """
    size = gemm.m * gemm.n * DTYPE_BYTES[cut.dtype]
    if cut.apart:
        return cut.blocks.count * size
    return size if cut.chained and gemm.partial is None else 0


def gemm_cut(gemm: Gemm, stages: tuple[Stage, ...], dtype: str, isa: ISA) -> GemmCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options, lanes = read_cut(GemmOptions, stages), isa.lanes(dtype)

    def partition(name: str, extent: int) -> Partition:
        count = getattr(options, name)
        if count > extent:
            raise VerifyError(f"{stages[0]}: {name} must be a whole number from 1 to {extent}")
        return Partition(extent, count)

    row_tiles, panels = (
        partition("row_tiles", gemm.m),
        partition("panels", pieces_of(gemm.n, lanes)),
    )
    blocks, group = partition("blocks", gemm.k), partition("group", max(panels.count, 1)).count
    switches = options.by_rows, options.apart, options.pack_b
    cut = GemmCut(row_tiles, panels, blocks, group, *switches, dtype, lanes, options.split)
    check_cut(gemm, stages[0], cut)
    check_stages(GemmOptions, stages, gemm_stages(cut))
    return cut


def check_cut(gemm: Gemm, stage: Stage, cut: GemmCut) -> None:
    """Raises VerifyError for a cut that the template cannot make."""
    several, dots = cut.blocks.count > 1, gemm.dot_products(cut.row_tiles)
    if gemm.transpose_b and not cut.pack_b and (several or not dots):
        raise VerifyError(f"{stage}: pack_b must be true, since b is read transposed")
    if cut.apart and (cut.by_rows or cut.group > 1 or not several):
        raise VerifyError(f"{stage}: apart needs blocks > 1, group = 1 and by_rows = false")
    if cut.row_tiles.size * cut.panels.size > TILE_VECTORS:
        raise VerifyError(
            f"{stage}: a tile of {cut.row_tiles.size} rows by {cut.panels.size} vectors has more "
            f"than {TILE_VECTORS} sums: more row_tiles or panels"
        )
    if cut.copied_bytes > COPIED_BYTES:
        raise VerifyError(
            f"{stage}: pack_b copies {cut.copied_bytes:,} bytes of b at a time, at most "
            f"{COPIED_BYTES:,} have room on a stack: more blocks or panels, or a smaller group"
        )
