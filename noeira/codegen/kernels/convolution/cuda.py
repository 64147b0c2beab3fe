"""How CUDA runs convolutions: as products in tiles, and where a group is one channel, directly."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.kernels.convolution.cuda_cut import ConvolutionCut
from noeira.codegen.kernels.convolution.cuda_product import Convolved, convolved_of
from noeira.codegen.kernels.gemm.cuda_cut import cuda_gemm_cut, gemm_launches
from noeira.codegen.kernels.gemm.cuda_rule import choose_cuda_gemm
from noeira.codegen.kernels.gemm.product import dtype_of
from noeira.codegen.lower import tail_code
from noeira.codegen.scratch import Room
from noeira.codegen.view import Elementwise
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import COMPUTED


class CudaConvolving(CudaAnchor):
    """The parent of the three."""

    dtypes = frozenset(COMPUTED)
    Cut = ConvolutionCut

    def rule(self, body: Body, machine: Arch) -> ConvolutionCut:
        return choose_cuda_gemm(convolved_of(body), dtype_of(body), machine, ConvolutionCut)

    def stages(self, body: Body, cut: ConvolutionCut, machine: Arch) -> tuple[Stage, ...]:
        return gemm_launches(cut)

    def scratch(self, body: Body, cut: ConvolutionCut) -> tuple[Room, ...]:
        return cut.scratch

    def view(self, body: Body, machine: Arch) -> Convolved:
        return convolved_of(body)

    def tail(self, body: Body) -> Elementwise:
        assert body.anchor is not None
        names = body.anchor.operands
        return tail_code(body, bias=names.index("bias") if "bias" in names else None)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> ConvolutionCut:
        return cuda_gemm_cut(convolved_of(body), stages, dtype_of(body), machine, ConvolutionCut)


class CudaConvolution(CudaConvolving):
    """The convolution."""

    stem = "convolution"
