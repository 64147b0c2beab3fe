"""How C runs a matrix product."""

from __future__ import annotations

from collections.abc import Iterable

from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.gemm.c_cut import GemmCut, gemm_cut, gemm_scratch, gemm_stages
from noeira.codegen.kernels.gemm.c_rule import choose_gemm
from noeira.codegen.kernels.gemm.c_search import gemm_candidates
from noeira.codegen.kernels.gemm.product import (
    Gemm,
    dtype_of,
    gemm_of,
    gemm_problem,
    gemm_tail,
    problem_body,
)
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.choices import Problem
from noeira.ir.plan import Stage
from noeira.ir.types import COMPUTED


class CGemm(CAnchor):
    """Tiles in panels in blocks; blocks that are summed apart are added in a second stage."""

    stem = "gemm"
    dtypes = frozenset(COMPUTED)
    Cut = GemmCut

    def rule(self, body: Body, machine: ISA) -> GemmCut:
        return choose_gemm(gemm_of(body), dtype_of(body), machine)

    def stages(self, body: Body, cut: GemmCut, machine: ISA) -> tuple[Stage, ...]:
        return gemm_stages(cut)

    def scratch(self, body: Body, cut: GemmCut) -> tuple[Room, ...]:
        return gemm_scratch(gemm_of(body), cut)

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
