"""Batch normalisation of rows, sequences, images and volumes."""

from __future__ import annotations

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.random import constant
from noeira.nn.core.parameters import Buffer
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import choice, flag, number, size
from noeira.nn.primitives.by_channel import ByChannel

__all__ = ["BatchNorm1D", "BatchNorm2D", "BatchNorm3D"]


class BatchNorm(ByChannel):
    """The parent of batch normalisation: (x − mean) / √(variance + eps) · gamma + beta of each
    channel (Ioffe and Szegedy 2015), in one call.

    In training mean and variance are those of the batch, and `running_mean` and `running_var` move
    towards them by `momentum`, the variance as that of n − 1 elements, as in PyTorch; with
    `biased=True` as that of n, as it is used. In evaluation, and with `frozen=True` always, the
    running ones take their place, and stay.
    """

    C = size()
    MOMENTUM = number(0.1, low=0.0, high=1.0)
    EPS = number(1e-5, above=0.0)
    AFFINE = flag(True)
    BIASED = flag(False)
    FROZEN = flag(False)
    running_mean = Buffer("C")
    running_var = Buffer("C", init=constant(1.0))

    @classmethod
    def statistics(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        mean, variance = scope.param("running_mean"), scope.param("running_var")
        if scope.phase != "train" or cls.FROZEN:
            return mean, variance
        count = x.type.size // cls.C
        if count == 1:
            raise CompositionError(
                f"{cls!r} takes statistics of a batch in training, and is given one value for each "
                f"channel, {x.type}: take a batch of at least 2"
            )
        found = scope.emit("channel_statistics", x, channels_last=cls.channels_last())
        unbiased = {} if cls.BIASED else {"scale": count / (count - 1)}
        for name, old, new, options in (
            ("running_mean", mean, found[0], {}),
            ("running_var", variance, found[1], unbiased),
        ):
            moved = scope.emit(
                "running_average", old, new, hint=name, momentum=cls.MOMENTUM, **options
            )
            scope.update(name, moved)
        return found


class BatchNorm1D(BatchNorm):
    """Batch normalisation of rows (C) -> (C), or of sequences: `BatchNorm1D[64]`,
    `BatchNorm1D.of(64, axes="ncl")`, (C, L) -> (C, L).

    Parameters, without `affine=False`: `gamma` [C], which begins as ones, and `beta` [C]. Buffers:
    `running_mean`, `running_var` [C]. Options: `momentum`, `eps`, `affine`, `biased`, `frozen`.
    Raises CompositionError in training for one value a channel.
    """

    AXES = choice("nc", "ncl", "nlc")


class BatchNorm2D(BatchNorm):
    """Batch normalisation of images (C, H, W) -> (C, H, W): `BatchNorm2D[64]`, or with channels
    last, `BatchNorm2D.of(64, axes="nhwc")`.

    Parameters, without `affine=False`: `gamma` [C], which begins as ones, and `beta` [C]. Buffers:
    `running_mean`, `running_var` [C]. Options: `momentum`, `eps`, `affine`, `biased`, `frozen`.
    """

    AXES = choice("nchw", "nhwc")


class BatchNorm3D(BatchNorm):
    """Batch normalisation of volumes (C, D, H, W) -> (C, D, H, W), or with `axes="ndhwc"` channels
    last. Otherwise as `BatchNorm2D`.
    """

    AXES = choice("ncdhw", "ndhwc")
