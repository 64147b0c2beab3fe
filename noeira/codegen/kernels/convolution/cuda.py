"""How CUDA runs convolutions: as products in tiles, and where groups have one channel, directly."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.cuda.anchor import CudaAnchor
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.launches import within
from noeira.codegen.cut import check_stages, read_cut
from noeira.codegen.kernels.convolution.cuda_cut import ConvolutionCut
from noeira.codegen.kernels.convolution.cuda_direct import (
    Direct,
    DirectCut,
    direct_cut,
    direct_scratch,
    direct_stages,
)
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

Cut = ConvolutionCut | DirectCut


class CudaConvolving(CudaAnchor):
    """The parent of the three: a rule for each way to do it, which the shapes decide."""

    dtypes, apart = frozenset(COMPUTED), True

    def rule(self, body: Body, machine: Arch) -> Cut:
        product = convolved_of(body)
        if product.one_channel:
            return direct_cut(product, machine)
        # A head changes no bits: sums are in the same pieces without it.
        plain = replace(product, headed=False)
        cut = choose_cuda_gemm(plain, dtype_of(body), machine, ConvolutionCut)
        assert isinstance(cut, ConvolutionCut)
        return replace(cut, gemm=product)

    def stages(self, body: Body, cut: Cut, machine: Arch) -> tuple[Stage, ...]:
        if isinstance(cut, ConvolutionCut):
            return gemm_launches(cut)
        return direct_stages(convolved_of(body), cut)

    def scratch(self, body: Body, cut: Cut) -> tuple[Room, ...]:
        if isinstance(cut, ConvolutionCut):
            return cut.scratch
        return direct_scratch(convolved_of(body), cut, dtype_of(body))

    def algorithm(self, body: Body, cut: Cut) -> str:
        return cut.algorithm

    def view(self, body: Body, machine: Arch) -> Convolved | Direct:
        product, dtype = convolved_of(body), dtype_of(body)
        return Direct(product, dtype, machine.lanes(dtype)) if product.one_channel else product

    def tail(self, body: Body) -> Elementwise:
        assert body.anchor is not None
        names = body.anchor.operands
        bias = names.index("bias") if "bias" in names else None
        return tail_code(body, bias, self.apart)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> Cut:
        product = convolved_of(body)
        if not product.one_channel:
            return cuda_gemm_cut(product, stages, dtype_of(body), machine, ConvolutionCut)
        within(stages, machine)
        cut = read_cut(DirectCut, stages)
        check_stages(DirectCut, stages, direct_stages(product, cut))
        return cut


class CudaConvolution(CudaConvolving):
    """The convolution."""

    stem = "convolution"
