"""How CUDA runs a matrix product."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut, cuda_gemm_cut, gemm_launches
from noeira.codegen.kernels.gemm.cuda_rule import choose_cuda_gemm
from noeira.codegen.kernels.gemm.product import Gemm, dtype_of, gemm_of, gemm_tail
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import COMPUTED


class CudaGemm(CudaAnchor):
    """Tiles of C; sums of pieces of k are added in a second stage, which any launch does."""

    stem = "gemm"
    dtypes = frozenset(COMPUTED)
    Cut = CudaGemmCut

    def rule(self, body: Body, machine: Arch) -> CudaGemmCut:
        return choose_cuda_gemm(gemm_of(body), dtype_of(body), machine)

    def stages(self, body: Body, cut: CudaGemmCut, machine: Arch) -> tuple[Stage, ...]:
        return gemm_launches(cut)

    def scratch(self, body: Body, cut: CudaGemmCut) -> tuple[Room, ...]:
        return cut.scratch

    def view(self, body: Body, machine: Arch) -> Gemm:
        return gemm_of(body)

    def tail(self, body: Body) -> Elementwise:
        return gemm_tail(body)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> CudaGemmCut:
        return cuda_gemm_cut(gemm_of(body), stages, dtype_of(body), machine)
