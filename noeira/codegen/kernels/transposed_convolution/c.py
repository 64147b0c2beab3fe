"""How C runs the adjoint of a convolution in the image."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving
from noeira.codegen.kernels.convolution.c_product import image_product


class CTransposedConvolution(CConvolving):
    """Patches of the cotangent of y times the weight, transposed."""

    stem, makes = "transposed_convolution", image_product
