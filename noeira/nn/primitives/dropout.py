"""Dropout: elements, or whole channels, that training drops at random."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature
from noeira.nn.core.slots import choice, number
from noeira.nn.primitives.images import Images

__all__ = ["AlphaDropout", "Dropout", "Dropout1D", "Dropout2D", "Dropout3D"]


class Dropping(Module):
    """The parent of layers that drop a share P of what they take, in training alone.

    Which, follows from the seed of the program, the count of its steps and the place in the
    network: masks are not stored, the backward pass draws them again.
    """

    P = number(low=0.0, high=1.0)
    op: ClassVar[str]

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) == 2 and not named and not isinstance(args[1], str):
            raise CompositionError(
                f"{as_written(cls, args, named)}: {cls.__name__} takes samples of any size; "
                f"write {cls.__name__}[{args[1]!r}]"
            )

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        if scope.phase != "train" or cls.P == 0:
            return x
        return cls.dropped(scope, x)

    @classmethod
    def dropped(cls, scope: Scope, x: Value) -> Value:
        """What is left in training."""
        return scope.emit(cls.op, x, *scope.random(), rate=cls.P)


class Dropout(Dropping):
    """x / (1 − P) with probability 1 − P, else 0, each element by itself; x in evaluation:
    `Dropout[0.5]`, (*) -> (*) (Srivastava et al. 2014).

    Of `Dropout[0.0]` nothing is left in the graph; `Dropout[1.0]` gives zeros.
    """

    signature = "(*) -> (*)"
    op = "dropout"


class AlphaDropout(Dropping):
    """a·x + b with probability 1 − P, else a·c + b, which keeps mean 0 and variance 1; x in
    evaluation: `AlphaDropout[0.1]`, (*) -> (*) (Klambauer et al. 2017).

    c = −1.758… is what SELU approaches on the left, a = ((1 − P)·(1 + P·c²))^−½ and b = −a·P·c.
    `AlphaDropout[1.0]` gives zeros.
    """

    signature = "(*) -> (*)"
    op = "alpha_dropout"


class ChannelDropout(Dropping, Images):
    """The parent of layers that drop whole channels: the mask has one element for each sample and
    channel.
    """

    @classmethod
    def compose(cls) -> Signature:
        return cls.made_of(cls.image(*cls.letters))

    @classmethod
    def dropped(cls, scope: Scope, x: Value) -> Value:
        rows, places = x.type.shape[0], (1,) * len(cls.letters)
        last = cls.channels_last()
        channels = x.type.shape[-1 if last else 1]
        shape = (rows, *places, channels) if last else (rows, channels, *places)
        own = {"rate": cls.P, "shape": shape, "dtype": x.type.dtype}
        return x * scope.emit("dropout_mask", *scope.random(), **own)


class Dropout1D(ChannelDropout):
    """x / (1 − P) with probability 1 − P, else 0, each channel of a sample as a whole; x in
    evaluation: `Dropout1D[0.5]`, (C, L) -> (C, L) (Tompson et al. 2015). Option:
    axes ("ncl" or "nlc").
    """

    AXES = choice("ncl", "nlc")
    letters = "L"


class Dropout2D(ChannelDropout):
    """x / (1 − P) with probability 1 − P, else 0, each channel of an image as a whole; x in
    evaluation: `Dropout2D[0.5]`, (C, H, W) -> (C, H, W) (Tompson et al. 2015). Option:
    axes ("nchw" or "nhwc").
    """

    AXES = choice("nchw", "nhwc")


class Dropout3D(ChannelDropout):
    """x / (1 − P) with probability 1 − P, else 0, each channel of a volume as a whole; x in
    evaluation: `Dropout3D[0.5]`, (C, D, H, W) -> (C, D, H, W) (Tompson et al. 2015). Option:
    axes ("ncdhw" or "ndhwc").
    """

    AXES = choice("ncdhw", "ndhwc")
    letters = "DHW"
