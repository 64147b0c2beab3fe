"""What stands before the first layer of a network of images: pixels as floats, and their random
changes in training.
"""

from __future__ import annotations

from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.binding import as_written
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice, number, numbers, size
from noeira.nn.primitives.images import Images

__all__ = ["RandomCropFlip", "RandomFlip", "Standardize"]


class Standardize(Images):
    """(x / 255 − mean) / std of pixels, mean and std of their channel, (C, H, W: u8) -> (C, H, W):
    `Standardize[(0.5, 0.4, 0.4), (0.2, 0.3, 0.3)]`, of grey images `Standardize[0.286, 0.353]`.

    So data stay in memory as bytes. Option: axes ("nchw" or "nhwc").
    """

    MEAN = numbers()
    STD = numbers(above=0.0)
    AXES = choice("nchw", "nhwc")

    @classmethod
    def check(cls) -> None:
        if len(cls.MEAN) != len(cls.STD):
            raise CompositionError(
                f"{cls!r}: mean has {len(cls.MEAN)} and std {len(cls.STD)} numbers; "
                "write one of each for every channel"
            )
        super().check()

    @classmethod
    def compose(cls) -> Signature:
        image = cls.image(*cls.letters)
        text = f"{image[:-1]}: u8) -> {image}"
        return parse_signature(text, cls.__name__).filled({"C": len(cls.MEAN)})

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        numbers = {"mean": cls.MEAN, "std": cls.STD, "dtype": scope.dtype}
        return scope.emit("standardize", x, **numbers, **cls.order())


class CropFlip(Images):
    """The parent of layers that move images at random in training and are nothing in evaluation.

    Each image of a batch, at each step, is moved by numbers of its own, those of Philox for its
    place in the batch and the step: a training that goes on from a checkpoint draws what it would
    have drawn.
    """

    FLIP = number(0.5, low=0.0, high=1.0)
    AXES = choice("nchw", "nhwc")

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of(cls.image(*cls.letters))

    @classmethod
    def margin(cls) -> int:
        """Pixels of zeros around an image of which a part is taken."""
        return 0

    @classmethod
    def check(cls) -> None:
        if cls.FLIP * 2**24 < 1 and not cls.margin():
            raise CompositionError(f"{cls!r} does nothing: leave it out")
        super().check()

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        if scope.phase != "train":
            return x
        numbers = scope.random()
        moved = {"padding": cls.margin(), "flip": cls.FLIP}
        return scope.emit("crop_flip", x, *numbers, **moved, **cls.order())


class RandomCropFlip(CropFlip):
    """In training a random part of an image with `PADDING` zeros around it, half of them mirrored;
    (C, H, W) -> (C, H, W): `RandomCropFlip[4]`, `RandomCropFlip.of(4, flip=0.0)`.

    The part is as large as the image. In evaluation the image stays as it is. 0 is the mean of
    standardised images. Option: axes ("nchw" or "nhwc"). Source: He et al. 2016, section 4.2.
    """

    PADDING = size()
    FLIP = number(0.5, low=0.0, high=1.0)
    AXES = choice("nchw", "nhwc")

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if args[:1] == (0,) or named.get("padding") == 0:
            raise CompositionError(
                f"{as_written(cls, args, named)} crops nothing: for flips alone write RandomFlip"
            )

    @classmethod
    def margin(cls) -> int:
        return cls.PADDING


class RandomFlip(CropFlip):
    """In training half of the images mirrored, at random, (C, H, W) -> (C, H, W): `RandomFlip`,
    `RandomFlip.of(flip=0.25)`.

    flip: the probability that left and right are exchanged. In evaluation the image stays as it is.
    Option: axes ("nchw" or "nhwc").
    """
