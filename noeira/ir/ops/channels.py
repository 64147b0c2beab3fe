"""Statistics of channels, which batch, instance and group normalisation are made of, and the sums
of their gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import ShapeError, VerifyError
from noeira.ir import graph
from noeira.ir.checks import expect, float_operand
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.images import ImageOp
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]
# Around vectors, and with more rows than are added up at once; of each sample, too.
SHAPES = ((7, 16), (3, 33), (600, 7), (2, 5, 9), (2, 17, 16, 3))
OF_SAMPLES = ((3, 7, 5), (2, 23, 25, 3))


@dataclass(frozen=True)
class ChannelAttrs(graph.Attrs):
    """channels_last: whether channels are the last axis, or else the second. by_sample: whether
    each sample has numbers of its own.
    """

    channels_last: bool = False
    by_sample: bool = False

    def axis(self, x: Shape) -> int:
        """The axis of channels."""
        return len(x) - 1 if self.channels_last else 1

    def shape(self, x: TensorType) -> Shape:
        """The shape of a number for each channel, or for each of each sample."""
        samples = x.shape[:1] if self.by_sample else ()
        return (*samples, x.shape[self.axis(x.shape)])

    def beside(self, x: TensorType) -> Shape:
        """The same, so that it is repeated to x."""
        kept = {self.axis(x.shape), *([0] if self.by_sample else [])}
        return tuple(n if axis in kept else 1 for axis, n in enumerate(x.shape))

    def reduced(self, x: Shape) -> tuple[int, ...]:
        """The axes over which is added up."""
        kept = {self.axis(x), *([0] if self.by_sample else [])}
        return tuple(axis for axis in range(len(x)) if axis not in kept)

    def count(self, x: TensorType) -> int:
        """Elements that one number is of."""
        return x.size // math.prod(self.shape(x))


class ChannelOp(ImageOp):
    """The parent of what adds up all but the channels of its first operand.

    Its kernels run over batches of rows by channels, and so take channels as the last axis alone.
    Sums are those of chunks of rows, in order.
    """

    kind, Attrs, images, results_images = "column", ChannelAttrs, ("x", "d"), ()
    takes = frozenset({"head"})

    def channels(self, attrs: ChannelAttrs, x: TensorType) -> TensorType:
        """The type of its results."""
        float_operand(self.name, x)
        if len(x.shape) < 2 + attrs.by_sample:
            needed = "samples, an axis to add up, and channels" if attrs.by_sample else "channels"
            raise ShapeError(f"{self.name}: {x} must have axes for samples and {needed}")
        return TensorType(computed(x.dtype), attrs.shape(x))

    def batches(self, attrs: ChannelAttrs, x: TensorType) -> tuple[int, int, int]:
        """x as batches of rows by columns. Raises VerifyError if channels are not the last axis."""
        if attrs.axis(x.shape) != len(x.shape) - 1:
            raise VerifyError(
                f"{self.name}: {x} has its channels in the second axis; its kernels take them in "
                "the last one alone, channels_last = true"
            )
        *samples, columns = attrs.shape(x)
        return math.prod(samples), attrs.count(x), columns

    def flops(self, attrs: ChannelAttrs, x: TensorType, *rest: TensorType) -> int:
        return 4 * x.size


class ChannelStatistics(ChannelOp):
    """The mean and the variance, Σ (x - mean)²/n, of each channel.

    x [N, …, C], or with channels_last = false [N, C, …] -> mean [C], variance [C]; by_sample: over
    all axes but the samples, [N, C]. Each chunk of rows has a mean and a sum of squares around it,
    which are then joined (Chan et al. 1983), so that no digits are lost to a large mean.
    """

    name, operands, results = "channel_statistics", ("x",), ("mean", "variance")

    def infer(self, attrs: ChannelAttrs, x: TensorType) -> tuple[TensorType, ...]:
        return (self.channels(attrs, x),) * 2

    def reference(self, attrs: ChannelAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        axes = attrs.reduced(x.shape)
        return x.mean(axes), x.var(axes)

    def vjp(self, attrs: ChannelAttrs, back: Backward) -> dict[str, Value]:
        (x,), (mean, _) = back.inputs, back.outputs
        beside, count = attrs.beside(x.type), attrs.count(x.type)
        zero = back.emit("constant", value=0.0, dtype=mean.type.dtype)
        flows = [
            zero if one is None else back.emit("reshape", one, shape=beside)
            for one in back.cotangents
        ]
        means = back.emit("reshape", mean, shape=beside)
        return {"x": back.emit("moments_grad", x, means, *flows, count=count)}

    def samples(self) -> tuple[Sample, ...]:
        last = {"channels_last": True}
        found = [Sample((Draw(f32(*shape)),), last) for shape in SHAPES]
        return (
            *found,
            *(Sample((Draw(f32(*shape)),), last | {"by_sample": True}) for shape in OF_SAMPLES),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3),), "must have axes for samples and channels"),
            BadSample((f32(3, 4),), "an axis to add up", {"by_sample": True}),
            BadSample((i32(3, 4),), "is not a float"),
        )


class ChannelSums(ChannelOp):
    """shift = Σ d and gain = Σ d·(x - mean)·rstd of each channel, over one reading: the sums of the
    gradient of a normalisation.

    d, x [N, …, C], or with channels_last = false [N, C, …], mean, rstd [C] -> [C], [C]; by_sample:
    over all axes but the samples, all four [N, C]
    """

    name, operands = "channel_sums", ("d", "x", "mean", "rstd")
    results = ("shift", "gain")

    def infer(
        self,
        attrs: ChannelAttrs,
        d: TensorType,
        x: TensorType,
        mean: TensorType,
        rstd: TensorType,
    ) -> tuple[TensorType, ...]:
        made = self.channels(attrs, d)
        expect(self.name, "x", x, d)
        expect(self.name, "mean", mean, made)
        expect(self.name, "rstd", rstd, made)
        return made, made

    def reference(
        self,
        attrs: ChannelAttrs,
        d: np.ndarray,
        x: np.ndarray,
        mean: np.ndarray,
        rstd: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.arrays import dtype_name

        axes = attrs.reduced(d.shape)
        beside = attrs.beside(TensorType(dtype_name(x.dtype), x.shape))
        n = (x - mean.reshape(beside)) * rstd.reshape(beside)
        return d.sum(axes), (d * n).sum(axes)

    def vjp(self, attrs: ChannelAttrs, back: Backward) -> dict[str, Value]:
        (d, x, mean, rstd), (shift, gain) = back.inputs, back.outputs
        beside = attrs.beside(x.type)
        zero = back.emit("constant", value=0.0, dtype=mean.type.dtype)
        of_shift, of_gain = (zero if one is None else one for one in back.cotangents)
        column = {
            one.name: back.emit("reshape", one, shape=beside) if one is not zero else zero
            for one in dict.fromkeys((mean, rstd, of_shift, of_gain))
        }
        means, rstds, shifts, gains = (column[one.name] for one in (mean, rstd, of_shift, of_gain))
        found = {"d": back.emit("normalize", x, means, rstds, gains, shifts)}
        if of_gain is not zero:
            slope = back.emit("multiply", of_gain, rstd)
            beside_slope = back.emit("reshape", slope, shape=beside)
            found["x"] = back.emit("multiply", d, beside_slope)
            product = back.emit("multiply", slope, shift)
            found["mean"] = back.emit("scale", product, factor=-1.0)
            found["rstd"] = back.emit("divide", back.emit("multiply", of_gain, gain), rstd)
        return found

    def samples(self) -> tuple[Sample, ...]:
        last = {"channels_last": True}
        return (
            *(self.sample(shape, last) for shape in SHAPES),
            *(self.sample(shape, last | {"by_sample": True}) for shape in OF_SAMPLES),
        )

    def sample(self, shape: Shape, attrs: dict[str, bool]) -> Sample:
        """Operands of a shape."""
        whole = Draw(f32(*shape))
        own = f32(*ChannelAttrs(**attrs).shape(whole.type))
        return Sample((whole, whole, Draw(own), Draw(own, "positive")), attrs)

    def bad_samples(self) -> tuple[BadSample, ...]:
        d, own = f32(4, 5), f32(5)
        return (
            BadSample((d, f32(4, 6), own, own), "x is f32[4, 6], it must be f32[4, 5]"),
            BadSample((d, d, f32(4), own), "mean is f32[4], it must be f32[5]"),
        )
