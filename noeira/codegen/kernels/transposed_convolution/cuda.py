"""How CUDA runs a transposed convolution."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.cuda import CudaConvolving


class CudaTransposedConvolution(CudaConvolving):
    """The gradient of images."""

    stem = "transposed_convolution"
