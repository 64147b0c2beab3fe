"""What normalisations have in common that are about channels: where these are, gain and shift."""

from __future__ import annotations

from typing import ClassVar

from noeira.ir.graph import Value
from noeira.ir.random import constant
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import Param
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice, flag, number, size

__all__: list[str] = []


class ByChannel(Module):
    """The parent of layers that normalise by statistics of channels.

    axes: the axes of a batch, by their letters: n samples, c channels. Subclasses say whose
    `statistics` they take.
    """

    C = size()
    EPS = number(1e-5, above=0.0)
    AFFINE = flag(True)
    AXES = choice("nchw", "nhwc")
    gamma = Param("C", init=constant(1.0), when="AFFINE")
    beta = Param("C", init="bias", when="AFFINE")
    pytorch_names: ClassVar[dict[str, str]] = {"gamma": "weight", "beta": "bias"}

    @classmethod
    def compose(cls) -> Signature:
        sample = f"({', '.join(cls.AXES[1:].upper())})"
        return parse_signature(f"{sample} -> {sample}", cls.__name__).filled(cls.sizes)

    @classmethod
    def channels_last(cls) -> bool:
        """Whether channels are the last axis."""
        return cls.AXES.endswith("c")

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return cls.normalized(scope if scope.group else scope.fused(), x)

    @classmethod
    def normalized(cls, scope: Scope, x: Value) -> Value:
        """The layer, in the kernel of the scope."""
        mean, variance = cls.statistics(scope, x)
        numbers = [mean, scope.emit("inverse_root", variance, hint="rstd", eps=cls.EPS)]
        if cls.AFFINE:
            numbers += [scope.param("gamma"), scope.param("beta")]
        numbers = [cls.beside(scope, one, x) for one in numbers]
        return scope.emit("normalize", x, *numbers, affine=cls.AFFINE)

    @classmethod
    def statistics(cls, scope: Scope, x: Value) -> tuple[Value, Value]:
        """The mean and the variance of each channel, [C], or of each of each sample, [N, C]."""
        raise NotImplementedError

    @classmethod
    def beside(cls, scope: Scope, numbers: Value, x: Value) -> Value:
        """Numbers of channels, or of those of each sample, in a shape that is repeated to x."""
        *samples, channels = numbers.type.shape
        axes = (1,) * (len(x.type.shape) - 2)
        own = (channels,) if cls.channels_last() else (channels, *axes)
        if samples:
            own = (*samples, *axes, *own) if cls.channels_last() else (*samples, *own)
        if own == numbers.type.shape:
            return numbers
        return scope.emit("reshape", numbers, shape=own)
