"""Networks for the images of CIFAR-10: convolutions in the manner of VGG, and the residual networks
of 20 to 56 layers.
"""

from __future__ import annotations

from noeira.nn.combinators.aliases import Conv2DReLU, LinearReLU
from noeira.nn.core.slots import size
from noeira.nn.models.network import Layers, Network
from noeira.nn.models.resnet import ResNet
from noeira.nn.primitives.linear import Linear
from noeira.nn.primitives.pooling import GlobalAvgPool2D, MaxPool2D
from noeira.nn.primitives.shapes import Flatten

__all__ = [
    "CifarBackbone",
    "CifarCNN",
    "CifarFeatureClassifier",
    "ResNet20",
    "ResNet32",
    "ResNet44",
    "ResNet56",
]


class CifarCNN(Network):
    """Six convolutions of 3x3 and two linear layers in the manner of VGG, (3, 32, 32) -> (CLASSES)
    (Simonyan and Zisserman 2014): `CifarCNN`, or `CifarCNN[100]`.

    Two convolutions each of 32, 64 and 128 channels stand before a maximum that halves the image.
    Parameters: those of the convolutions at `conv1` … `conv6`, of the linear layers at `fc1` and
    `fc2`. Option: channels (3).
    """

    CLASSES = size(10)
    CHANNELS = size(3)

    @classmethod
    def layers(cls) -> Layers:
        found, channels = list(Layers()), cls.CHANNELS
        for stage, width in enumerate((32, 64, 128)):
            for number in (2 * stage + 1, 2 * stage + 2):
                found.append((f"conv{number}", Conv2DReLU.of(channels, width, 3, padding=1)))
                channels = width
            found.append((f"pool{stage + 1}", MaxPool2D[2]))
        head = (("fc1", LinearReLU[128 * 4 * 4, 128]), ("fc2", Linear[128, cls.CLASSES]))
        return (*found, ("flatten", Flatten), *head)


class CifarResNet(ResNet):
    """The parent of the residual networks for CIFAR-10 (He et al. 2015, section 4.2): three stages
    of 16, 32 and 64 channels, whose shortcuts have no parameters.
    """

    CHANNELS = size(3)
    widths, shortcut = (16, 32, 64), "pad"


class CifarBackbone(CifarResNet):
    """ResNet-20 up to its last block, (3, H, W) -> (64, H/4, W/4), rounded up at each halving.

    Parameters: those of `ResNet20` but for its head. Option: channels (3).
    """

    blocks = (3, 3, 3)


class CifarFeatureClassifier(Network):
    """`CifarBackbone`, the mean over the image, and a linear layer, (3, H, W) -> (CLASSES).

    Parameters: those of the backbone at `backbone`, of the linear layer at `head`. Option: channels
    (3).
    """

    CLASSES = size(10)
    CHANNELS = size(3)

    @classmethod
    def layers(cls) -> Layers:
        backbone = CifarBackbone.of(channels=cls.CHANNELS)
        head = Linear[64, cls.CLASSES]
        return (("backbone", backbone), ("avgpool", GlobalAvgPool2D), ("head", head))


class CifarClassifier(CifarResNet):
    """The parent of those with a head: the mean over the image, and logits of classes."""

    CLASSES = size(10)
    CHANNELS = size(3)

    @classmethod
    def layers(cls) -> Layers:
        head = Linear[cls.widths[-1], cls.CLASSES]
        return (*super().layers(), ("avgpool", GlobalAvgPool2D), ("linear", head))


class ResNet20(CifarClassifier):
    """The residual network of 20 layers for CIFAR-10, (3, H, W) -> (CLASSES) (He et al. 2015,
    section 4.2): `ResNet20`, or `ResNet20[100]`.

    Shortcuts past a halving are the paper's option A, which has no parameters. Option: channels
    (3). Parameters have the names that are usual in PyTorch, but `gamma` and `beta`; see
    `resnet_names`.
    """

    blocks = (3, 3, 3)


class ResNet32(CifarClassifier):
    """The residual network of 32 layers for CIFAR-10, (3, H, W) -> (CLASSES); see `ResNet20`."""

    blocks = (5, 5, 5)


class ResNet44(CifarClassifier):
    """The residual network of 44 layers for CIFAR-10, (3, H, W) -> (CLASSES); see `ResNet20`."""

    blocks = (7, 7, 7)


class ResNet56(CifarClassifier):
    """The residual network of 56 layers for CIFAR-10, (3, H, W) -> (CLASSES); see `ResNet20`."""

    blocks = (9, 9, 9)
