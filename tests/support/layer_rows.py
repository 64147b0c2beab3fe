"""Layers beside what PyTorch has for them: one table, with shapes that suit no kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from noeira import nn

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A layer, the module of `torch.nn` that is made of that, or a function of tensors, and the
    shapes of a sample of each input, once for each size. last: how many axes beside batch and
    channels lie before the channels here, and behind them there.
    """

    layer: type[nn.Module]
    theirs: Callable[[Any], Callable[..., Any]]
    sizes: tuple[tuple[Shape, ...], ...]
    last: int = 0

    @property
    def name(self) -> str:
        """The layer as it is written."""
        return repr(self.layer)


# IC, OC, K, options, and images of two sizes, without their channels.
CONVOLUTIONS: tuple[tuple[int, int, Any, dict[str, Any], Shape, Shape], ...] = (
    (3, 5, 3, {}, (7,), (33,)),
    (4, 6, 4, {"stride": 3, "padding": 2, "groups": 2}, (9,), (31,)),
    (6, 6, 3, {"padding": 2, "dilation": 2, "groups": 6, "bias": False}, (5,), (18,)),
    (1, 1, 1, {}, (1, 1), (3, 17)),
    (3, 17, 3, {"padding": 1}, (5, 7), (9, 6)),
    (16, 33, 3, {"padding": 1, "bias": False}, (3, 3), (8, 9)),
    (5, 7, (3, 1), {"stride": (2, 1), "padding": (1, 0)}, (7, 3), (6, 11)),
    (4, 8, 3, {"stride": 2, "padding": 1, "groups": 4}, (5, 6), (9, 7)),
    (17, 17, 3, {"padding": 1, "groups": 17}, (4, 5), (7, 6)),
    (3, 12, 5, {"padding": 2, "groups": 3}, (5, 3), (7, 8)),
    (6, 4, 3, {"dilation": (2, 3), "padding": (2, 1)}, (7, 9), (5, 12)),
    (6, 9, 2, {"stride": 3, "groups": 3, "dilation": 2}, (7, 8), (11, 4)),
    (33, 3, 1, {"stride": 2}, (3, 5), (6, 4)),
    (2, 3, (1, 2, 3), {"padding": (0, 1, 1)}, (2, 3, 4), (3, 5, 4)),
    (4, 4, 3, {"stride": 2, "padding": 1, "groups": 4}, (3, 4, 3), (5, 3, 4)),
    (4, 6, 2, {"dilation": 2, "groups": 2, "bias": False}, (3, 4, 5), (4, 3, 6)),
)
TRANSPOSED: tuple[tuple[int, int, Any, dict[str, Any], Shape, Shape], ...] = (
    (3, 5, 3, {}, (5,), (17,)),
    (4, 6, 4, {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}, (4,), (9,)),
    (3, 17, 3, {"padding": 1}, (4, 5), (7, 3)),
    (16, 9, 2, {"stride": 2, "bias": False}, (3, 3), (5, 7)),
    (5, 7, (3, 1), {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0)}, (3, 4), (5, 6)),
    (8, 4, 3, {"stride": 2, "padding": 1, "groups": 4}, (3, 5), (4, 6)),
    (9, 9, 3, {"padding": 1, "groups": 9}, (4, 3), (6, 7)),
    (6, 4, 3, {"dilation": (2, 3), "padding": (1, 3)}, (4, 5), (3, 8)),
    (2, 3, (1, 2, 3), {"stride": (1, 2, 2)}, (2, 3, 2), (3, 2, 4)),
    (4, 4, 3, {"stride": 2, "padding": 1, "groups": 2, "bias": False}, (2, 3, 2), (3, 2, 3)),
)
AXES = {1: ("ncl", "nlc"), 2: ("nchw", "nhwc"), 3: ("ncdhw", "ndhwc")}


def convolutions() -> Iterator[Row]:
    """The rows of all convolutions, in both orders of axes."""
    for cases, suffix in ((CONVOLUTIONS, ""), (TRANSPOSED, "Transpose")):
        for taken, given, kernel, options, *sizes in cases:
            axes = len(sizes[0])
            family = getattr(nn, f"Conv{axes}D{suffix}")
            word = f"Conv{suffix}{axes}d"

            def theirs(torch_nn: Any, own: Any = (word, taken, given, kernel, options)) -> Any:
                name, *sizes, more = own
                return getattr(torch_nn, name)(*sizes, **more)

            layer = family.of(taken, given, kernel, **options)
            yield Row(layer, theirs, tuple(((taken, *size),) for size in sizes))
            behind = family.of(taken, given, kernel, **options, axes=AXES[axes][1])
            yield Row(behind, theirs, tuple(((*size, taken),) for size in sizes), axes)


def behind(layer: type[nn.Module], theirs: Any, *sizes: Shape) -> Row:
    """A row of a layer whose channels are the last axis."""
    return Row(layer, theirs, tuple((size,) for size in sizes), len(sizes[0]) - 1)


def row(layer: type[nn.Module], theirs: Any, *sizes: Shape) -> Row:
    """A row of a layer that takes one sample."""
    return Row(layer, theirs, tuple((size,) for size in sizes))


def two(layer: type[nn.Module], function: str) -> Row:
    """A row of a function of two tensors."""
    pairs = tuple((shape, shape) for shape in ((3,), (5, 17)))
    return Row(layer, lambda torch_nn: getattr(torch_of(torch_nn), function), pairs)


def torch_of(torch_nn: Any) -> Any:
    """The module above `torch.nn`."""
    import torch

    return torch


FLAT = (3,), (5, 33)
IMAGES = (3, 7, 6), (5, 4, 9)
ROWS = (
    *convolutions(),
    row(nn.Linear[3, 17], lambda n: n.Linear(3, 17), (3,), (5, 3)),
    row(nn.Linear.of(33, 7, bias=False), lambda n: n.Linear(33, 7, bias=False), (33,), (2, 33)),
    row(nn.ReLU, lambda n: n.ReLU(), *FLAT),
    row(nn.Tanh, lambda n: n.Tanh(), *FLAT),
    row(nn.Sigmoid, lambda n: n.Sigmoid(), *FLAT),
    row(nn.SiLU, lambda n: n.SiLU(), *FLAT),
    row(nn.GELU, lambda n: n.GELU(), *FLAT),
    row(nn.GELUTanh, lambda n: n.GELU("tanh"), *FLAT),
    row(nn.Mish, lambda n: n.Mish(), *FLAT),
    row(nn.Softplus, lambda n: n.Softplus(threshold=1e9), *FLAT),
    row(nn.ELU.of(alpha=0.5), lambda n: n.ELU(0.5), *FLAT),
    row(nn.LeakyReLU.of(slope=0.2), lambda n: n.LeakyReLU(0.2), *FLAT),
    row(nn.Clamp.of(low=-0.5, high=0.75), lambda n: n.Hardtanh(-0.5, 0.75), *FLAT),
    row(nn.Scale.of(multiplier=0.75), lambda n: lambda x: 0.75 * x, *FLAT),
    row(nn.Symlog, lambda n: lambda x: x.sign() * x.abs().log1p(), *FLAT),
    row(nn.Symexp, lambda n: lambda x: x.sign() * x.abs().expm1(), *FLAT),
    *(
        two(getattr(nn, name), function)
        for name, function in (
            *(("Add", "add"), ("Sub", "sub"), ("Mul", "mul")),
            *(("Min", "minimum"), ("Max", "maximum")),
        )
    ),
    row(nn.Softmax, lambda n: n.Softmax(-1), *FLAT),
    row(nn.LogSoftmax, lambda n: n.LogSoftmax(-1), *FLAT),
    row(nn.LayerNorm.of(17, eps=1e-3), lambda n: n.LayerNorm(17, eps=1e-3), (17,), (3, 17)),
    row(
        nn.LayerNormNoAffine[9],
        lambda n: n.LayerNorm(9, elementwise_affine=False),
        *((9,), (2, 3, 9)),
    ),
    row(nn.RMSNorm[19], lambda n: n.RMSNorm(19, eps=1e-5), (19,), (3, 19)),
    row(nn.BatchNorm1D[5], lambda n: n.BatchNorm1d(5), (5,)),
    row(nn.BatchNorm1D.of(5, axes="ncl"), lambda n: n.BatchNorm1d(5), (5, 7)),
    row(nn.BatchNorm2D[3], lambda n: n.BatchNorm2d(3), (3, 4, 5), (3, 1, 9)),
    behind(nn.BatchNorm2D.of(17, axes="nhwc"), lambda n: n.BatchNorm2d(17), (4, 5, 17), (1, 3, 17)),
    row(nn.BatchNorm3D[3], lambda n: n.BatchNorm3d(3), (3, 2, 4, 5), (3, 1, 3, 2)),
    row(nn.InstanceNorm1D[3], lambda n: n.InstanceNorm1d(3), (3, 7), (3, 18)),
    row(
        nn.InstanceNorm2D.of(5, affine=True),
        lambda n: n.InstanceNorm2d(5, affine=True),
        *((5, 3, 4), (5, 7, 1)),
    ),
    row(nn.GroupNorm[3, 6], lambda n: n.GroupNorm(3, 6), (6, 3, 4), (6, 5, 1)),
    row(nn.MaxPool1D.of(3, 2, padding=1), lambda n: n.MaxPool1d(3, 2, 1), (3, 7), (5, 16)),
    row(
        nn.MaxPool2D.of(3, 2, padding=1, dilation=2, ceil=True),
        lambda n: n.MaxPool2d(3, 2, 1, 2, ceil_mode=True),
        *IMAGES,
    ),
    behind(nn.MaxPool2D.of(2, axes="nhwc"), lambda n: n.MaxPool2d(2), (7, 6, 3), (4, 9, 17)),
    row(nn.MaxPool3D.of(2, 1), lambda n: n.MaxPool3d(2, 1), (2, 3, 4, 3), (3, 2, 3, 5)),
    row(nn.AvgPool1D.of(3, 2, padding=1), lambda n: n.AvgPool1d(3, 2, 1), (3, 7), (5, 16)),
    row(
        nn.AvgPool2D.of(3, 2, padding=1, count_padding=False, ceil=True),
        lambda n: n.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        *IMAGES,
    ),
    behind(nn.AvgPool2D.of(2, axes="nhwc"), lambda n: n.AvgPool2d(2), (7, 6, 3), (4, 9, 17)),
    row(nn.AvgPool3D.of(2, 1), lambda n: n.AvgPool3d(2, 1), (2, 3, 4, 3), (3, 2, 3, 5)),
    row(nn.AdaptiveAvgPool2D[3, 4], lambda n: n.AdaptiveAvgPool2d((3, 4)), *IMAGES),
    row(nn.AdaptiveMaxPool2D[3, 2], lambda n: n.AdaptiveMaxPool2d((3, 2)), *IMAGES),
    row(
        nn.GlobalAvgPool2D,
        lambda n: n.Sequential(n.AdaptiveAvgPool2d(1), n.Flatten()),
        *IMAGES,
    ),
    row(
        nn.GlobalMaxPool2D,
        lambda n: n.Sequential(n.AdaptiveMaxPool2d(1), n.Flatten()),
        *IMAGES,
    ),
    row(nn.Upsample[3], lambda n: n.Upsample(scale_factor=3), (3, 2, 5), (5, 3, 1)),
    row(nn.Upsample2x, lambda n: n.Upsample(scale_factor=2), *IMAGES),
    row(nn.DepthToSpace[2], lambda n: n.PixelShuffle(2), (12, 3, 5), (4, 7, 2)),
    row(nn.SpaceToDepth[3], lambda n: n.PixelUnshuffle(3), (3, 3, 6), (5, 6, 9)),
    row(nn.Flatten, lambda n: n.Flatten(), *IMAGES),
)
# What has no row here, because PyTorch has no module for it, or because it draws random numbers,
# and the file that holds what it gives and its gradient.
SHAPES = "tests/nn/test_shapes.py"
HELD_ELSEWHERE = {
    **dict.fromkeys(("Concat", "Pad", "Slice", "CenterHalf", "PixelShuffle", "Reshape"), SHAPES),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceSum", "ToNCHW", "ToNHWC"), SHAPES),
    **dict.fromkeys(("SpaceTimeTranspose", "Transpose", "Transpose2D"), SHAPES),
    **dict.fromkeys(("AlphaDropout", "Dropout"), "tests/nn/test_dropout.py"),
    **dict.fromkeys(("Dropout1D", "Dropout2D", "Dropout3D"), "tests/nn/test_dropout.py"),
    **dict.fromkeys(("GradGate", "StopGrad"), "tests/nn/test_wrappers.py"),
    **dict.fromkeys(("RandomCropFlip", "RandomFlip"), "tests/nn/test_image_layers.py"),
    "Standardize": "tests/nn/test_image_layers.py",
    **dict.fromkeys(("TwoHotDecode", "TwoHotEncode"), "tests/nn/test_two_hot.py"),
    "ConvRMSNorm": "tests/nn/test_normalization.py",
}
