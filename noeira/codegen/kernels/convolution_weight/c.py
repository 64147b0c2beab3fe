"""How C runs the adjoint of a convolution in the weight."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving


class CConvolutionWeight(CConvolving):
    """The cotangent of the weight, of x and that of y."""

    stem = "convolution_weight"
