"""How C runs the adjoint of a convolution in the image."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving


class CTransposedConvolution(CConvolving):
    """The cotangent of x, of that of y and the weight."""

    stem = "transposed_convolution"
