"""How C runs a convolution."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving
from noeira.codegen.kernels.convolution.c_product import forward_product


class CConvolution(CConvolving):
    """Patches of x times the weight."""

    stem, makes = "convolution", forward_product
