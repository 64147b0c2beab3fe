"""What the tests of CUDA convolutions share: convolutions of all three kinds, cut in some way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from samples import retyped
from sweep import Case, sample_case

from noeira.codegen.kernels.convolution.cuda_cut import ConvolutionCut
from noeira.codegen.kernels.convolution.cuda_direct import (
    DirectCut,
    direct_scratch,
    direct_stages,
)
from noeira.codegen.kernels.convolution.cuda_product import Convolved, convolved_of
from noeira.codegen.kernels.gemm.cuda_cut import gemm_launches
from noeira.codegen.kernels.gemm.product import Partition
from noeira.codegen.scratch import bytes_of
from noeira.ir.body import body_of
from noeira.ir.geometry import Sizes
from noeira.ir.geometry_samples import case
from noeira.ir.op import op
from noeira.ir.plan import Choice
from noeira.ir.samples import Draw, Sample

Tile = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Shape:
    """A convolution: batch, channels, filters, axes of images, kernel, axes of the result, and
    attributes.
    """

    batch: int
    channels: int
    filters: int
    size: Sizes
    kernel: Sizes
    out: Sizes
    attrs: tuple[tuple[str, Any], ...] = ()

    def cases(self, dtype: str = "f32") -> Iterator[Case]:
        """It and its two adjoints."""
        sizes = self.batch, self.channels, self.filters, self.size, self.kernel, self.out
        x, w, d, attrs = case(*sizes, **dict(self.attrs))
        for name, operands, more in (
            ("convolution", (x, w), {}),
            ("transposed_convolution", (d, w), {"size": self.size}),
            ("convolution_weight", (x, d), {"size": self.kernel}),
        ):
            sample = Sample(tuple(map(Draw, operands)), attrs | more)
            yield sample_case(op(name), retyped(sample, dtype))


def shape(
    batch: int,
    channels: int,
    filters: int,
    size: Sizes,
    kernel: Sizes,
    out: Sizes,
    **attrs: Any,
) -> Shape:
    """A convolution."""
    return Shape(batch, channels, filters, size, kernel, out, tuple(attrs.items()))


def product_of(one: Case) -> Convolved:
    """The product that it is."""
    return convolved_of(body_of(one.node))


def tiled(one: Case, tile: Tile, splits: int = 1) -> tuple[Case, Choice]:
    """A convolution in these tiles, with k in pieces, as many as there may be."""
    product, dtype = product_of(one), one.node.outputs[0].type.dtype
    steps = -(-product.k // tile[2])
    cut = ConvolutionCut(product, dtype, *tile, pieces=Partition(steps, min(splits, steps)))
    choice = Choice(gemm_launches(cut), bytes_of(cut.scratch))
    return replace(one, label=f"{one.label} {choice.stages[0]}"), choice


def piecewise(one: Case, splits: int) -> tuple[Case, Choice]:
    """One whose groups have one channel, by few threads, with long sums in pieces."""
    product, dtype = product_of(one), one.node.outputs[0].type.dtype
    total = (2, 32) if splits > 1 else (1, 1)
    cut = DirectCut(3, 32, splits, *total)
    scratch = bytes_of(direct_scratch(product, cut, dtype))
    choice = Choice(direct_stages(product, cut), scratch)
    return replace(one, label=f"{one.label} {choice.stages[0]}"), choice
