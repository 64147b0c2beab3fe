"""Residual networks for photographs: ResNet-18 and ResNet-34, and what is before their heads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from noeira.nn.combinators.declarations import Node
from noeira.nn.combinators.fused import Fused
from noeira.nn.combinators.sequential import Sequential
from noeira.nn.core.module import Module
from noeira.nn.core.slots import choice, size
from noeira.nn.models.blocks import ResBlock, ResBlockDownsample
from noeira.nn.models.network import Layers, Network
from noeira.nn.primitives.activations import ReLU
from noeira.nn.primitives.batch_norm import BatchNorm2D
from noeira.nn.primitives.convolution import Conv2D
from noeira.nn.primitives.linear import Linear
from noeira.nn.primitives.pooling import GlobalAvgPool2D, MaxPool2D

__all__ = ["ResNet18", "ResNet18Backbone", "ResNet18Layer3Backbone", "ResNet34"]


def first_kernel(channels: int, width: int, kernel: int = 3, stride: int = 1) -> type[Module]:
    """The first convolution with what follows it, in one kernel."""
    first = Conv2D.of(channels, width, kernel, stride, kernel // 2, bias=False)
    return Fused[
        Node["conv1", first, "x"],
        Node["bn1", BatchNorm2D[width], "conv1"],
        Node["relu", ReLU, "bn1"],
    ]


def stages(widths: Sequence[int], blocks: Sequence[int], shortcut: str) -> Layers:
    """`layer1`, `layer2`, … of so many channels and blocks; all but the first halve the image."""
    begins = [ResBlock[widths[0]]]
    begins += [ResBlockDownsample.of(*pair, shortcut=shortcut) for pair in pairwise(widths)]
    return tuple(
        (f"layer{index}", Sequential[(begin, *(ResBlock[width],) * (count - 1))])
        for index, (begin, width, count) in enumerate(
            zip(begins, widths, blocks, strict=True), start=1
        )
    )


class ResNet(Network):
    """The parent of networks of a stem and stages of residual blocks (He et al. 2015).

    widths, blocks: channels and number of blocks of each stage.
    """

    CHANNELS: int
    widths: ClassVar[tuple[int, ...]]
    blocks: ClassVar[tuple[int, ...]]
    shortcut: ClassVar[str] = "conv"

    @classmethod
    def stem(cls) -> Layers:
        """What is before the stages: a convolution of 3x3 that keeps the size."""
        return (("", first_kernel(cls.CHANNELS, cls.widths[0])),)

    @classmethod
    def layers(cls) -> Layers:
        return (*cls.stem(), *stages(cls.widths, cls.blocks, cls.shortcut))


class Photographs(ResNet):
    """The parent of those of He et al. 2015, table 1, for photographs.

    stem: "imagenet", a convolution of 7x7 and a maximum of 3x3, each with a stride of 2, or
    "cifar", a convolution of 3x3 that keeps the size, for small images.
    """

    STEM = choice("imagenet", "cifar")
    CHANNELS = size(3)
    widths = (64, 128, 256, 512)

    @classmethod
    def stem(cls) -> Layers:
        if cls.STEM == "cifar":
            return super().stem()
        wide = first_kernel(cls.CHANNELS, cls.widths[0], 7, 2)
        return (("", wide), ("maxpool", MaxPool2D.of(3, 2, padding=1)))


class ResNet18Backbone(Photographs):
    """ResNet-18 up to its last block (He et al. 2015, table 1), (3, H, W) -> (512, H/32, W/32),
    rounded up at each halving; with `stem="cifar"` (512, H/8, W/8).

    Options: stem ("imagenet" or "cifar"), channels (3). Parameters have the names that torchvision
    has, but `gamma` and `beta`; see `resnet_names`.
    """

    blocks = (2, 2, 2, 2)


class ResNet18Layer3Backbone(Photographs):
    """ResNet-18 up to its third stage (He et al. 2015, table 1), (3, H, W) -> (256, H/16, W/16),
    rounded up at each halving; with `stem="cifar"` (256, H/4, W/4).

    Options and names: those of `ResNet18Backbone`.
    """

    widths, blocks = (64, 128, 256), (2, 2, 2)


class Classifier(Photographs):
    """The parent of those with a head: the mean over the image, and logits of classes."""

    CLASSES = size()
    STEM = choice("imagenet", "cifar")
    CHANNELS = size(3)

    @classmethod
    def layers(cls) -> Layers:
        head = Linear[cls.widths[-1], cls.CLASSES]
        return (*super().layers(), ("avgpool", GlobalAvgPool2D), ("fc", head))


class ResNet18(Classifier):
    """ResNet-18, (3, H, W) -> (CLASSES) (He et al. 2015, table 1): `ResNet18[1000]`, or for small
    images `ResNet18.of(10, stem="cifar")`.

    Options: stem ("imagenet", a convolution of 7x7 and a maximum of 3x3, each with a stride of 2,
    or "cifar", a convolution of 3x3 that keeps the size), channels (3). Parameters have the names
    that torchvision has, but `gamma` and `beta`; see `resnet_names`.
    """

    blocks = (2, 2, 2, 2)


class ResNet34(Classifier):
    """ResNet-34, (3, H, W) -> (CLASSES) (He et al. 2015, table 1). Options and names: those of
    `ResNet18`.
    """

    blocks = (3, 4, 6, 3)
