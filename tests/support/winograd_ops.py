"""The three ops of convolutions, as ops whose kernels in C are Winograd's whatever the rule says,
and take element-wise ops before their images too.
"""

from __future__ import annotations

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.convolution.c_convolving import CConvolving
from noeira.codegen.kernels.winograd.rule import WinogradCut, choose
from noeira.ir.body import Body
from noeira.ir.geometry import Geometry
from noeira.ir.ops.convolution import Convolution, ConvolutionWeight, TransposedConvolution

PREFIX = "winograd_"
HEAD_AND_TAIL = frozenset({"head", "tail"})


class WinogradConvolution(Convolution):
    """`convolution` by Winograd's algorithm."""

    name = template = f"{PREFIX}convolution"
    takes = HEAD_AND_TAIL


class WinogradTransposedConvolution(TransposedConvolution):
    """`transposed_convolution` by Winograd's algorithm."""

    name = template = f"{PREFIX}transposed_convolution"
    takes = HEAD_AND_TAIL


class WinogradConvolutionWeight(ConvolutionWeight):
    """`convolution_weight` by Winograd's algorithm."""

    name = template = f"{PREFIX}convolution_weight"
    takes = HEAD_AND_TAIL


class Winograd(CConvolving):
    """The cut of all three."""

    stem = WinogradConvolution.template

    def given(self, body: Body, machine: ISA) -> tuple[str, Geometry, str, ISA, bool]:
        stem, geometry, dtype, isa, headed = super().given(body, machine)
        return stem.removeprefix(PREFIX), geometry, dtype, isa, headed

    def rule(self, body: Body, machine: ISA) -> WinogradCut:
        role, geometry, dtype, isa, _ = self.given(body, machine)
        return choose(role, geometry, dtype, isa)


class WinogradTransposed(Winograd):
    """That of the second."""

    stem = WinogradTransposedConvolution.template


class WinogradWeight(Winograd):
    """That of the third."""

    stem = WinogradConvolutionWeight.template
