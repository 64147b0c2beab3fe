"""How CUDA runs the gradient of a convolution's weight."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.cuda import CudaConvolving


class CudaConvolutionWeight(CudaConvolving):
    """The gradient of weights."""

    stem = "convolution_weight"
