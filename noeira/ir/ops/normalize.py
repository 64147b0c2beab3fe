"""What normalisations do to each element: `normalize` and its gradient, the reciprocal deviation,
running statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.ir import graph
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.ops.channels import ChannelAttrs
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, drawn, f32
from noeira.ir.scalar import Expr, call, var

Shape = tuple[int, ...]
# Shapes of x, of what it is normalised by, and of the gain: channels in the last axis and in the
# second, of all samples together and of each.
BY_CHANNEL = (
    *(((7, 5), (5,), (5,)), ((2, 3, 9), (9,), (9,)), ((2, 3, 4, 5), (3, 1, 1), (3, 1, 1))),
    *(((2, 3, 4, 5), (2, 1, 1, 5), (5,)), ((2, 5, 3), (2, 5, 1), (5, 1))),
)


@dataclass(frozen=True)
class NormalizeAttrs(graph.Attrs):
    """affine: whether there are a gain and a shift."""

    affine: bool = True


class Normalize(Elementwise):
    """(x - mean)·rstd·gain + shift; without the last two if it is not affine.

    Where what x is normalised by has one element for each channel, or for each channel of each
    sample, one op gives the sums that its gradient is made of: `channel_sums`.
    """

    name, operands, Attrs = "normalize", ("x", "mean", "rstd", "gain", "shift"), NormalizeAttrs

    def given_operands(self, attrs: NormalizeAttrs) -> tuple[str, ...]:
        return self.operands if attrs.affine else self.operands[:3]

    def expression(self, attrs: NormalizeAttrs) -> Expr:
        x, mean, rstd, gain, shift = map(var, self.operands)
        scaled = (x - mean) * rstd
        return scaled * gain + shift if attrs.affine else scaled

    def vjp(self, attrs: NormalizeAttrs, back: Backward) -> dict[str, Value]:
        x, mean, rstd, gain, shift = back.inputs
        shapes = [one.type.shape for one in (mean, rstd, gain, shift) if one is not None]
        form = channel_form(x.type.shape, shapes)
        summed = any(back.wants(name) for name in self.operands[1:])
        if form is None or not summed:
            return super().vjp(attrs, back)
        d, channels = back.cotangent, form.shape(x.type)
        flat = [back.emit("reshape", one, shape=channels) for one in (mean, rstd)]
        sums = back.emit("channel_sums", d, x, *flat, **vars(form))
        d_shift, d_gain = (back.emit("reshape", one, shape=mean.type.shape) for one in sums)
        found = dict[str, Value]()
        if back.wants("x"):
            scales = [rstd, *([] if gain is None else [gain])]
            found["x"] = back.emit("normalize.d0", d, *scales, **vars(attrs))
        if gain is not None and back.wants("gain"):
            found["gain"] = over_samples(back, d_gain, gain.type.shape)
        if shift is not None and back.wants("shift"):
            found["shift"] = over_samples(back, d_shift, shift.type.shape)
        if back.wants("mean"):
            slope = back.emit("multiply", weighted(back, d_shift, gain), rstd)
            found["mean"] = back.emit("scale", slope, factor=-1.0)
        if back.wants("rstd"):
            found["rstd"] = back.emit("divide", weighted(back, d_gain, gain), rstd)
        return found

    def samples(self) -> tuple[Sample, ...]:
        positive = [
            Sample(
                (Draw(f32(*x)), Draw(f32(*by)), Draw(f32(*by), "positive"), *(Draw(f32(*g)),) * 2)
            )
            for x, by, g in BY_CHANNEL
        ]
        plain = [
            Sample((Draw(f32(*x)), Draw(f32(*by)), Draw(f32(*by), "positive")), {"affine": False})
            for x, by, _ in BY_CHANNEL[1:4]
        ]
        rows = drawn((5, 7), (5, 1), (5, 1), (7,), (7,))
        return (*positive, *plain, rows, drawn((2, 3, 17), (2, 3, 17), (3, 1), (17,), (1,)))


def channel_form(x: Shape, operands: list[Shape]) -> ChannelAttrs | None:
    """Where the channels of x are, and whether each sample has its own numbers, if operands, the
    first two of which are the same, have one element for each channel; else None.
    """
    rank = len(x)
    for last in (True, False):
        channels = x[-1] if last else x[1] if rank > 1 else 0
        own = (channels,) if last else (channels, *(1,) * (rank - 2))
        samples = (x[0], *(1,) * (rank - 2), channels) if last else (x[0], *own)
        for by_sample, by in ((False, own), (True, samples)):
            fits = operands[:2] == [by, by] and all(one == own for one in operands[2:])
            if rank > (2 if by_sample else 1) and fits:
                return ChannelAttrs(channels_last=last, by_sample=by_sample)
    return None


def over_samples(back: Backward, sums: Value, shape: Shape) -> Value:
    """Sums for each channel of each sample, or of each channel, as those of a gain of a shape."""
    if len(sums.type.shape) > len(shape):
        sums = back.emit("sum", sums, axes=(0,))
    return back.emit("reshape", sums, shape=shape)


def weighted(back: Backward, sums: Value, gain: Value | None) -> Value:
    """Sums times the gain, if there is one."""
    return sums if gain is None else back.emit("multiply", sums, gain)


@dataclass(frozen=True)
class EpsAttrs(graph.Attrs):
    """eps: what is added."""

    eps: float = 1e-5


class InverseRoot(Elementwise):
    """1 / √(x + eps)"""

    name, Attrs = "inverse_root", EpsAttrs

    def expression(self, attrs: EpsAttrs) -> Expr:
        return 1.0 / call("sqrt", var("x") + attrs.eps)

    def slope(self, attrs: EpsAttrs, index: int) -> Expr:
        y = var("y")
        return y * y * y * -0.5

    def samples(self) -> tuple[Sample, ...]:
        return tuple(Sample((Draw(f32(*shape), "positive"),)) for shape in ((1,), (4, 33)))


@dataclass(frozen=True)
class CountAttrs(graph.Attrs):
    """count: elements that a mean is of."""

    count: int = 1


class MomentsGrad(Elementwise):
    """(d_mean + 2·(x - mean)·d_variance) / count: what flows back to x from the mean and the
    variance of `count` elements
    """

    name, operands = "moments_grad", ("x", "mean", "d_mean", "d_variance")
    Attrs = CountAttrs

    def expression(self, attrs: CountAttrs) -> Expr:
        x, mean, d_mean, d_variance = map(var, self.operands)
        return (d_mean + (x - mean) * d_variance * 2.0) * (1 / attrs.count)

    def samples(self) -> tuple[Sample, ...]:
        return (drawn((4, 33), (33,), (33,), (33,)), drawn((2, 3, 17), (3, 1), (3, 1), (3, 1)))


@dataclass(frozen=True)
class RunningAttrs(graph.Attrs):
    """momentum: the share of what is new; scale: a factor on that."""

    momentum: float = 0.1
    scale: float = 1.0


class RunningAverage(Elementwise):
    """old + momentum·(scale·new - old)"""

    name, operands, Attrs = "running_average", ("old", "new"), RunningAttrs

    def expression(self, attrs: RunningAttrs) -> Expr:
        old, new = var("old"), var("new")
        return old + (new * attrs.scale - old) * attrs.momentum

    def samples(self) -> tuple[Sample, ...]:
        return (drawn((7,), (7,)), drawn((33,), (33,)))
