"""What networks of images are built of: a convolution and what follows it in one kernel, and the
blocks of residual networks.

Convolutions before a batch normalisation have no bias, which its mean would take away again.
"""

from __future__ import annotations

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.aliases import Short
from noeira.nn.combinators.declarations import Node
from noeira.nn.combinators.fused import Fused
from noeira.nn.combinators.sequential import Sequential
from noeira.nn.core.extents import extent
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice, derived, size
from noeira.nn.primitives.activations import ReLU
from noeira.nn.primitives.batch_norm import BatchNorm2D
from noeira.nn.primitives.binary import Add
from noeira.nn.primitives.convolution import Conv2D
from noeira.nn.primitives.images import Images
from noeira.nn.primitives.parts import Pad
from noeira.nn.primitives.pooling import AvgPool2D

__all__ = ["Conv2DBatchNorm", "Conv2DBatchNormReLU", "ResBlock", "ResBlockDownsample"]


class Conv2DBatchNorm(Short):
    """A convolution and batch normalisation: `Fused[Conv2D.of(IC, OC, K, STRIDE, PADDING,
    bias=False), BatchNorm2D[OC]]`, (IC, H, W) -> (OC, (H + 2·PADDING - K)//STRIDE + 1, …).

    Parameters: `0.weight` [OC, IC, K, K], `1.gamma`, `1.beta` [OC]. Buffers: `1.running_mean`,
    `1.running_var` [OC]. Option: axes ("nchw" or "nhwc"), of both.
    """

    IC = size()
    OC = size()
    K = extent("HW")
    STRIDE = extent("HW", 1)
    PADDING = extent("HW", 0, least=0)
    AXES = choice("nchw", "nhwc")
    LAYERS = derived(lambda b: b.normalised())

    @classmethod
    def normalised(cls) -> tuple[type[Module], ...]:
        """The convolution and what normalises it."""
        return (
            Conv2D.of(cls.IC, cls.OC, cls.K, cls.STRIDE, cls.PADDING, bias=False, axes=cls.AXES),
            BatchNorm2D.of(cls.OC, axes=cls.AXES),
        )


class Conv2DBatchNormReLU(Conv2DBatchNorm):
    """A convolution, batch normalisation and ReLU: `Fused[Conv2D.of(IC, OC, K, STRIDE, PADDING,
    bias=False), BatchNorm2D[OC], ReLU]`, (IC, H, W) -> (OC, (H + 2·PADDING - K)//STRIDE + 1, …).

    Parameters, buffers and axes: those of `Conv2DBatchNorm`.
    """

    LAYERS = derived(lambda b: (*b.normalised(), ReLU))


def first_half(ic: int, oc: int, axes: str, stride: int = 1) -> type[Module]:
    """x -> relu(bn1(conv1(x))), in one kernel, a convolution of 3x3."""
    return Fused[
        Node["conv1", Conv2D.of(ic, oc, 3, stride, 1, bias=False, axes=axes), "x"],
        Node["bn1", BatchNorm2D.of(oc, axes=axes), "conv1"],
        Node["relu1", ReLU, "bn1"],
    ]


def second_half(channels: int, axes: str) -> type[Module]:
    """h, shortcut -> relu(bn2(conv2(h)) + shortcut), in one kernel, a convolution of 3x3."""
    return Fused[
        Node["conv2", Conv2D.of(channels, channels, 3, 1, 1, bias=False, axes=axes), "h"],
        Node["bn2", BatchNorm2D.of(channels, axes=axes), "conv2"],
        Node["sum", Add, "bn2", "shortcut"],
        Node["relu2", ReLU, "sum"],
    ]


class ResBlock(Images):
    """relu(bn2(conv2(relu(bn1(conv1(x))))) + x), (C, H, W) -> (C, H, W) (He et al. 2015, figure 5).

    Convolutions are of 3x3; each is a kernel with what follows it. Parameters: `conv1.weight`,
    `conv2.weight` [C, C, 3, 3], and of `bn1` and `bn2` those of BatchNorm2D. Option: axes ("nchw"
    or "nhwc").
    """

    C = size()
    AXES = choice("nchw", "nhwc")
    FIRST = derived(lambda b: first_half(b.C, b.C, b.AXES))
    SECOND = derived(lambda b: second_half(b.C, b.AXES))

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of(cls.image(*cls.letters))

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.FIRST), ("", cls.SECOND))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        h = scope.child("", cls.FIRST).run(x)
        return scope.child("", cls.SECOND).run(h, x)


class ResBlockDownsample(Images):
    """relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)), conv1 with a stride of 2, (IC, H, W) ->
    (OC, ⌈H/2⌉, ⌈W/2⌉).

    shortcut: "conv", a convolution of 1x1 with a stride of 2 and batch normalisation (option B of
    He et al. 2015), or "pad", every second pixel with as many channels of zeros before and after
    (option A), which has no parameters.
    Parameters: `conv1.weight` [OC, IC, 3, 3], `conv2.weight` [OC, OC, 3, 3], of `bn1` and `bn2`
    those of BatchNorm2D, and of "conv" `downsample.0.weight` [OC, IC, 1, 1] and those of
    BatchNorm2D at `downsample.1`. Option: axes ("nchw" or "nhwc"). Raises CompositionError for
    channels that cannot be padded so.
    """

    IC = size()
    OC = size()
    SHORTCUT = choice("conv", "pad")
    AXES = choice("nchw", "nhwc")
    FIRST = derived(lambda b: first_half(b.IC, b.OC, b.AXES, 2))
    SECOND = derived(lambda b: second_half(b.OC, b.AXES))

    @classmethod
    def compose(cls) -> Signature:
        takes, gives = cls.image(*cls.letters), cls.image("(H+1)//2", "(W+1)//2")
        text = f"{takes.replace('C', 'IC')} -> {gives.replace('C', 'OC')}"
        return parse_signature(text, cls.__name__).filled(cls.sizes)

    @classmethod
    def shortcut(cls) -> type[Module]:
        """What stands beside the two convolutions."""
        if cls.SHORTCUT == "conv":
            return Conv2DBatchNorm.of(cls.IC, cls.OC, 1, 2, axes=cls.AXES)
        # Sides of the last axes, the last one first.
        places = () if cls.channels_last() else (0,) * 4
        more = (cls.OC - cls.IC) // 2
        return Sequential[AvgPool2D.of(1, 2, axes=cls.AXES), Pad[(*places, more, more)]]

    @classmethod
    def check(cls) -> None:
        super().check()
        more = cls.OC - cls.IC
        if cls.SHORTCUT == "pad" and (more < 0 or more % 2):
            raise CompositionError(
                f"{cls!r}: {more} channels of zeros cannot be as many before as after {cls.IC}"
            )

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.FIRST), ("", cls.SECOND), ("downsample", cls.shortcut()))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        shortcut = scope.child("downsample", cls.shortcut()).run(x)
        h = scope.child("", cls.FIRST).run(x)
        return scope.child("", cls.SECOND).run(h, shortcut)
