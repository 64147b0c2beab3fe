"""How C runs a convolution."""

from __future__ import annotations

from noeira.codegen.kernels.convolution.c_convolving import CConvolving


class CConvolution(CConvolving):
    """y of x and the weight."""

    stem = "convolution"
