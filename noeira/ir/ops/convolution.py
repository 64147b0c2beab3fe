"""Convolutions: `convolution` and its adjoints in x and in the weight, a family closed under vjp.

Of one, two or three axes, with stride, padding, dilation and groups. What lies in memory has its
channels last: x [N, *S, C], weight [*K, C/groups, F]; as users count axes they are x [N, C, *S] and
weight [F, C/groups, *K].
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.arrays import dtype_name
from noeira.ir.checks import one_float_dtype
from noeira.ir.filters import Filters
from noeira.ir.geometry import Geometry, Sizes, image_of, paddings, per_axis, weight_of
from noeira.ir.geometry_samples import CASES, with_bias
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.images import ImageOp
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ConvolutionAttrs(graph.Attrs):
    """stride, dilation: 1 along each axis by default. padding: zeros on both sides of each axis, or
    before all axes, then behind them. groups: of channels, each with filters of its own.
    channels_last: whether operands are [N, *S, C] and [*K, C/groups, F], else [N, C, *S] and
    [F, C/groups, *K].
    """

    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    channels_last: bool = False


@dataclass(frozen=True)
class AdjointAttrs(ConvolutionAttrs):
    """size: of the result along the axes of the image, or of the weight, which its operands leave
    open where there is a stride.
    """

    size: tuple[int, ...] = ()


class Convolving(ImageOp):
    """The parent of the three: what they have in common is the geometry."""

    kind, Attrs, weights = "contraction", AdjointAttrs, ("weight",)
    takes, stores_head = frozenset({"head", "tail"}), False

    def geometry(self, attrs: Any, *types: TensorType | None) -> Geometry:
        """The numbers of a node. Raises ShapeError if operands and attributes do not fit."""
        raise NotImplementedError(f"{type(self).__name__}.geometry")

    def made(
        self,
        attrs: ConvolutionAttrs,
        image: tuple[int, int, Sizes],
        weight: tuple[int, int, Sizes],
        out: Sizes | None = None,
    ) -> Geometry:
        """The geometry, given batch, channels and axes of x, and filters, channels of a group and
        axes of the weight; out: axes of y, if they are known and to be checked.
        """
        (batch, channels, size), (filters, own, kernel) = image, weight
        axes, name, groups = len(size), self.name, attrs.groups
        stride = per_axis(name, "stride", attrs.stride, axes, 1)
        dilation = per_axis(name, "dilation", attrs.dilation, axes, 1)
        before, after = paddings(name, attrs.padding, axes)
        if groups < 1 or channels % groups or filters % groups:
            raise ShapeError(
                f"{name}: {groups} groups divide neither {channels} channels nor {filters} filters"
                if groups > 0 and channels % groups and filters % groups
                else f"{name}: {groups} groups do not divide {channels} channels and {filters} "
                "filters"
            )
        if own != channels // groups:
            raise ShapeError(
                f"{name}: a filter reads {own} channels, a group has {channels // groups}: "
                f"{channels} in {groups} group{'s' * (groups > 1)}"
            )
        spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        padded = [sum(one) for one in zip(before, size, after, strict=True)]
        if any(span > length for span, length in zip(spans, padded, strict=True)):
            raise ShapeError(
                f"{name}: the kernel spans {spans}, more than the padded image has: {padded}"
            )
        found = tuple(
            (length - span) // step + 1
            for length, span, step in zip(padded, spans, stride, strict=True)
        )
        if out is not None and out != found:
            raise ShapeError(
                f"{name}: of images of {list(size)} there are {list(found)}, not {list(out)}, "
                f"places for a kernel of {list(kernel)}"
            )
        return Geometry(
            batch, channels, filters, groups, size, found, kernel, stride, before, after, dilation
        )

    def flops(self, attrs: Any, *args: Any, **kwargs: Any) -> int:
        return self.geometry(attrs, *args).flops

    def rows(self, attrs: Any, *args: Any, **kwargs: Any) -> TensorType:
        return args[0]


class Convolution(Convolving, Filters):
    """y[n, p, f] = Σ x[n, stride·p + dilation·k - padding, c] · weight[k, c, f] (+ bias[f]), over
    taps k and channels c: the cross-correlation that is called convolution.

    x [N, C, *S], weight [F, C/groups, *K], bias [F] (optional) -> [N, F, *P]
    """

    name, operands, Attrs = "convolution", ("x", "weight", "bias"), ConvolutionAttrs

    def geometry(self, attrs: ConvolutionAttrs, *types: Any) -> Geometry:
        last = attrs.channels_last
        image = image_of(self.name, types[0], last)
        return self.made(attrs, image, weight_of(self.name, types[1], len(image[2]), last))

    def infer(
        self,
        attrs: ConvolutionAttrs,
        x: TensorType,
        weight: TensorType,
        bias: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        dtype = one_float_dtype(self.name, x, weight, *([bias] if bias else []))
        geometry = self.geometry(attrs, x, weight)
        check_bias(self.name, bias, dtype, geometry.filters)
        return (geometry.result(dtype, attrs.channels_last),)

    def reference(
        self,
        attrs: ConvolutionAttrs,
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.geometry_numpy import convolved

        g, (x, weight) = in_memory(self, attrs, x, weight)
        y = convolved(g, x, weight)
        return (as_asked(attrs, y if bias is None else y + bias),)

    def vjp(self, attrs: ConvolutionAttrs, back: Backward) -> dict[str, Value]:
        (x, weight, _), d, found = back.inputs, back.cotangent, dict[str, Value]()
        g, options = self.geometry(attrs, x.type, weight.type), of_adjoint(attrs)
        if back.wants("x"):
            options["size"] = g.size
            found["x"] = back.emit("transposed_convolution", d, weight, **options)
        if back.wants("weight"):
            options["size"] = g.kernel
            found["weight"] = back.emit("convolution_weight", x, d, **options)
        if back.wants("bias"):
            found["bias"] = bias_gradient(back, attrs, d)
        return found

    def channel_axis(self, attrs: ConvolutionAttrs, result: TensorType) -> int:
        return len(result.shape) - 1 if attrs.channels_last else 1

    def factor_shapes(
        self, attrs: ConvolutionAttrs, weight: TensorType, channels: int
    ) -> tuple[tuple[int, ...], ...]:
        ones = (1,) * (len(weight.shape) - 1)
        return ((*ones, channels) if attrs.channels_last else (channels, *ones),)

    def samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample((Draw(x), Draw(w), *with_bias(number, w.shape[-1])), attrs)
            for number, (x, w, _, attrs) in enumerate(CASES)
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, w = f32(2, 3, 8, 8), f32(4, 3, 3, 3)
        return (
            BadSample((f32(2, 3), w), "are no images"),
            BadSample((x, f32(4, 3, 3)), "is no weight, [F, C/groups, *K], for images of 2 axes"),
            BadSample((x, f32(4, 2, 3, 3)), "a filter reads 2 channels, a group has 3"),
            BadSample((x, w), "2 groups do not divide 3 channels", {"groups": 2}),
            BadSample((x, w), "stride is [0, 1]", {"stride": (0, 1)}),
            BadSample((x, w), "padding is [1, 1, 1]", {"padding": (1, 1, 1)}),
            BadSample((x, f32(4, 3, 9, 3)), "the kernel spans [9, 3]"),
            BadSample((x, w, f32(3)), "bias f32[3] must be f32[4]"),
            BadSample((x, i32(4, 3, 3, 3)), "one dtype"),
        )


class TransposedConvolution(Convolving, Filters):
    """The adjoint of `convolution` in x: d_x[n, stride·p + dilation·k - padding, c] =
    Σ d[n, p, f] · weight[k, c, f] (+ bias[c]).

    d [N, F, *P], weight [F, C/groups, *K], bias [C] (optional) -> [N, C, *size]
    """

    name, operands, images = "transposed_convolution", ("d", "weight", "bias"), ("d",)

    def geometry(self, attrs: AdjointAttrs, *types: Any) -> Geometry:
        last = attrs.channels_last
        batch, filters, out = image_of(self.name, types[0], last)
        weight = weight_of(self.name, types[1], len(out), last)
        if weight[0] != filters:
            raise ShapeError(f"{self.name}: {types[0]} has {filters} channels, not {weight[0]}")
        size = per_axis(self.name, "size", attrs.size, len(out), 1)
        return self.made(attrs, (batch, weight[1] * attrs.groups, size), weight, out)

    def infer(
        self,
        attrs: AdjointAttrs,
        d: TensorType,
        weight: TensorType,
        bias: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        dtype = one_float_dtype(self.name, d, weight, *([bias] if bias else []))
        geometry = self.geometry(attrs, d, weight)
        check_bias(self.name, bias, dtype, geometry.channels)
        return (geometry.image(dtype, attrs.channels_last),)

    def reference(
        self,
        attrs: AdjointAttrs,
        d: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.geometry_numpy import spread

        g, (d, weight) = in_memory(self, attrs, d, weight)
        x = spread(g, d, weight)
        return (as_asked(attrs, x if bias is None else x + bias),)

    def vjp(self, attrs: AdjointAttrs, back: Backward) -> dict[str, Value]:
        (d, weight, _), flow, found = back.inputs, back.cotangent, dict[str, Value]()
        options = of_adjoint(attrs)
        if back.wants("d"):
            found["d"] = back.emit("convolution", flow, weight, **options)
        if back.wants("weight"):
            options["size"] = self.geometry(attrs, d.type, weight.type).kernel
            found["weight"] = back.emit("convolution_weight", flow, d, **options)
        if back.wants("bias"):
            found["bias"] = bias_gradient(back, attrs, flow)
        return found

    def channel_axis(self, attrs: AdjointAttrs, result: TensorType) -> int:
        return len(result.shape) - 1 if attrs.channels_last else 1

    def factor_shapes(
        self, attrs: AdjointAttrs, weight: TensorType, channels: int
    ) -> tuple[tuple[int, ...], ...]:
        groups, ones = attrs.groups, (1,) * (len(weight.shape) - 2)
        own = channels // groups
        if attrs.channels_last:
            return ((*ones, channels, 1),) if groups == 1 else ()
        if groups == 1:
            return ((1, channels, *ones),)
        # Filters of a group make its channels.
        filters = weight.shape[0]
        return (groups, 1, own), (groups, filters // groups, own), (filters, own, *ones)

    def samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(
                (Draw(d), Draw(w), *with_bias(number, x.shape[-1])),
                {**attrs, "size": x.shape[1:-1]},
            )
            for number, (x, w, d, attrs) in enumerate(CASES)
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        d, w = f32(2, 4, 6, 6), f32(4, 3, 3, 3)
        return (
            BadSample((d, f32(5, 3, 3, 3)), "has 4 channels, not 5", {"size": (8, 8)}),
            BadSample((d, w), "there are [7, 7], not [6, 6]", {"size": (9, 9)}),
            BadSample((d, w, f32(4)), "bias f32[4] must be f32[3]", {"size": (8, 8)}),
        )


class ConvolutionWeight(Convolving):
    """The adjoint of `convolution` in the weight: d_weight[k, c, f] =
    Σ x[n, stride·p + dilation·k - padding, c] · d[n, p, f], over images n and places p.

    x [N, C, *S], d [N, F, *P] -> [F, C/groups, *size]
    """

    name, operands, images = "convolution_weight", ("x", "d"), ("x", "d")
    results_images, results_weights = (), ("",)

    def geometry(self, attrs: AdjointAttrs, *types: Any) -> Geometry:
        last = attrs.channels_last
        image = image_of(self.name, types[0], last)
        batch, filters, out = image_of(self.name, types[1], last)
        kernel = per_axis(self.name, "size", attrs.size, len(image[2]), 1)
        if batch != image[0] or len(out) != len(image[2]):
            raise ShapeError(f"{self.name}: {types[0]} and {types[1]} do not fit")
        weight = filters, image[1] // max(attrs.groups, 1), kernel
        return self.made(attrs, image, weight, out)

    def infer(self, attrs: AdjointAttrs, x: TensorType, d: TensorType) -> tuple[TensorType, ...]:
        dtype = one_float_dtype(self.name, x, d)
        return (self.geometry(attrs, x, d).weight(dtype, attrs.channels_last),)

    def reference(
        self, attrs: AdjointAttrs, x: np.ndarray, d: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        from noeira.ir.geometry_numpy import gathered

        channels = -1 if attrs.channels_last else 1
        x, d = (np.moveaxis(array, channels, -1) for array in (x, d))
        last = replace(attrs, channels_last=True)
        g = self.geometry(last, *map(type_of, (x, d)))
        made = gathered(g, x, d)
        return (made if attrs.channels_last else np.moveaxis(made, (-1, -2), (0, 1)),)

    def vjp(self, attrs: AdjointAttrs, back: Backward) -> dict[str, Value]:
        (x, d), flow, found = back.inputs, back.cotangent, dict[str, Value]()
        options = of_adjoint(attrs)
        if back.wants("d"):
            found["d"] = back.emit("convolution", x, flow, **options)
        if back.wants("x"):
            options["size"] = self.geometry(attrs, x.type, d.type).size
            found["x"] = back.emit("transposed_convolution", d, flow, **options)
        return found

    def samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample((Draw(x), Draw(d)), {**attrs, "size": w.shape[:-2]}) for x, w, d, attrs in CASES
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        x = f32(2, 3, 8, 8)
        return (
            BadSample((x, f32(3, 4, 6, 6)), "do not fit", {"size": (3, 3)}),
            BadSample((x, f32(2, 4, 5, 6)), "there are [6, 6], not [5, 6]", {"size": (3, 3)}),
        )


def check_bias(name: str, bias: TensorType | None, dtype: str, channels: int) -> None:
    """A bias, if there is one, has an element for each channel of the result."""
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"{name}: bias {bias} must be {dtype}[{channels}]")


def of_adjoint(attrs: ConvolutionAttrs) -> dict[str, Any]:
    """The attributes that all three ops have, by name."""
    return {field.name: getattr(attrs, field.name) for field in fields(ConvolutionAttrs)}


def bias_gradient(back: Backward, attrs: ConvolutionAttrs, d: Value) -> Value:
    """The sums of a cotangent over all but its channels."""
    rank = len(d.type.shape)
    axes = range(rank - 1) if attrs.channels_last else (0, *range(2, rank))
    return back.emit("sum", d, axes=tuple(axes))


def type_of(array: np.ndarray) -> TensorType:
    """The type of an array."""
    return TensorType(dtype_name(array.dtype), array.shape)


def in_memory(
    rule: Convolving, attrs: ConvolutionAttrs, image: np.ndarray, weight: np.ndarray
) -> tuple[Geometry, tuple[np.ndarray, np.ndarray]]:
    """Images and a weight with channels last, and the geometry."""
    import numpy as np

    if not attrs.channels_last:
        image, weight = np.moveaxis(image, 1, -1), np.moveaxis(weight, (1, 0), (-2, -1))
    last = replace(attrs, channels_last=True)
    return rule.geometry(last, type_of(image), type_of(weight)), (image, weight)


def as_asked(attrs: ConvolutionAttrs, image: np.ndarray) -> np.ndarray:
    """Images with channels last as the attributes have them."""
    import numpy as np

    return image if attrs.channels_last else np.moveaxis(image, -1, 1)
