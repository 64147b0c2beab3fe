"""How C runs the adjoint of a convolution in the weight."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving
from noeira.codegen.kernels.convolution.c_product import weight_product


class CConvolutionWeight(CConvolving):
    """Patches of x, transposed, times the cotangent of y."""

    stem, makes = "convolution_weight", weight_product
    summed = True
