"""What ONNX operators about images are in ops of noeira."""

from __future__ import annotations

import math
from typing import Any

from onnx_cases import LeftOut, Node

from noeira.ir.graph import Value

Sizes = tuple[int, ...]


def spans_of(node: Node, kernel: Sizes) -> Sizes:
    """How far a window reaches along each axis."""
    dilation = node.attr("dilations", [1] * len(kernel))
    return tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))


def pads_of(node: Node, size: Sizes, kernel: Sizes) -> tuple[Sizes, Sizes]:
    """The zeros before and behind each axis: those given, or as many as `auto_pad` asks for; with
    `ceil_mode` as many more as make the last window whole.
    """
    count, how = len(size), node.attr("auto_pad", "NOTSET")
    strides = node.attr("strides", [1] * count)
    pads = node.attr("pads", [0] * 2 * count)
    before, behind = list(pads[:count]), list(pads[count:])
    for axis, (n, span, stride) in enumerate(
        zip(size, spans_of(node, kernel), strides, strict=True)
    ):
        if how.startswith("SAME"):
            total = max(0, (-(-n // stride) - 1) * stride + span - n)
            less, more = total // 2, total - total // 2
            upper = how == "SAME_UPPER"
            before[axis], behind[axis] = (less, more) if upper else (more, less)
        if node.attr("ceil_mode", 0):
            windows = -(-(n + before[axis] + behind[axis] - span) // stride) + 1
            # A window that would begin behind the image and its padding in front is none.
            windows -= (windows - 1) * stride >= n + before[axis]
            end = (windows - 1) * stride + span
            behind[axis] = max(behind[axis], end - n - before[axis])
    return tuple(before), tuple(behind)


def window_attrs(node: Node, size: Sizes, kernel: Sizes) -> dict[str, Any]:
    """Stride, padding and dilation."""
    before, behind = pads_of(node, size, kernel)
    found = {"padding": (*before, *behind)}
    for ours, theirs in (("stride", "strides"), ("dilation", "dilations")):
        found[ours] = tuple(node.attr(theirs, [1] * len(size)))
    return found


def convolution(node: Node) -> Value:
    operands = node.all_values()
    size, kernel = operands[0].type.shape[2:], operands[1].type.shape[2:]
    attrs = window_attrs(node, size, kernel)
    return node.emit("convolution", *operands, groups=node.attr("group", 1), **attrs)


def transposed_convolution(node: Node) -> Value:
    operands = node.all_values()
    length, kernel = operands[0].type.shape[2:], operands[1].type.shape[2:]
    count = len(kernel)
    stride = tuple(node.attr("strides", [1] * count))
    more = node.attr("output_padding", [0] * count)
    whole = [
        s * (n - 1) + span + extra
        for s, n, span, extra in zip(stride, length, spans_of(node, kernel), more, strict=True)
    ]
    pads = list(node.attr("pads", [0] * 2 * count))
    wanted = node.attr("output_shape")
    if node.attr("auto_pad", "NOTSET").startswith("SAME"):
        wanted = [n * s for n, s in zip(length, stride, strict=True)]
    if wanted:
        for axis in range(count):
            total = max(0, whole[axis] - wanted[axis])
            more_behind = total - total // 2
            upper = node.attr("auto_pad", "NOTSET") == "SAME_UPPER"
            parts = (total // 2, more_behind) if upper else (more_behind, total // 2)
            pads[axis], pads[axis + count] = parts
    size = wanted or [w - a - b for w, a, b in zip(whole, pads[:count], pads[count:], strict=True)]
    return node.emit(
        "transposed_convolution",
        *operands,
        stride=stride,
        padding=tuple(pads),
        dilation=tuple(node.attr("dilations", [1] * count)),
        groups=node.attr("group", 1),
        size=tuple(size),
    )


def max_pool(node: Node) -> Value:
    x, kernel = node.value(), tuple(node.attr("kernel_shape"))
    return node.emit("max_pool", x, kernel=kernel, **window_attrs(node, x.type.shape[2:], kernel))


def average_pool(node: Node) -> Value:
    x, kernel = node.value(), tuple(node.attr("kernel_shape"))
    attrs = window_attrs(node, x.type.shape[2:], kernel)
    dilation = attrs.pop("dilation")
    counts, pads = node.attr("count_include_pad", 0), node.attr("pads", [0] * 2 * len(kernel))
    if max(dilation) > 1:
        if any(pads):
            raise LeftOut("means of dilated windows with padding")
        return dilated_means(node, x, kernel, attrs | {"dilation": dilation})
    if counts:
        attrs["counted"] = tuple(pads[: len(kernel)])
    return node.emit("window_sum", x, kernel=kernel, mean=True, **attrs)


def dilated_means(node: Node, x: Value, kernel: Sizes, attrs: dict[str, Any]) -> Value:
    """Means of dilated windows, which pools have not: sums by a depthwise convolution with ones,
    over how many cells each is of.
    """
    channels, one = x.type.shape[1], node.constant(1.0, x)
    ones = node.emit("broadcast", one, shape=(channels, 1, *kernel))
    there = node.emit("broadcast", one, shape=x.type.shape)
    sums, counts = (
        node.emit("convolution", image, ones, groups=channels, **attrs) for image in (x, there)
    )
    return node.emit("divide", sums, counts)


def global_pool(node: Node, op: str, **attrs: Any) -> Value:
    x = node.value()
    return node.emit(op, x, windows=(1,) * (len(x.type.shape) - 2), **attrs)


def beside(node: Node, channels: Value, x: Value) -> Value:
    """Numbers of channels, or of channels of each sample, so that they are repeated to x."""
    rest = (1,) * (len(x.type.shape) - 2)
    return node.reshape(channels, *channels.type.shape, *rest)


def by_channel(node: Node, x: Value, mean: Value, variance: Value, eps: float) -> tuple[Value, ...]:
    """What `normalize` takes."""
    rstd = node.emit("inverse_root", variance, eps=eps)
    return x, beside(node, mean, x), beside(node, rstd, x)


def batch_normalization(node: Node) -> Any:
    x, gain, shift, mean, variance = node.all_values()
    eps, kept = node.attr("epsilon", 1e-5), ()
    if node.attr("training_mode", 0):
        own = node.emit("channel_statistics", x)
        momentum = 1 - node.attr("momentum", 0.9)
        olds = zip((mean, variance), own, strict=True)
        kept = tuple(node.emit("running_average", old, new, momentum=momentum) for old, new in olds)
        mean, variance = own
    weights = (beside(node, one, x) for one in (gain, shift))
    made = node.emit("normalize", *by_channel(node, x, mean, variance, eps), *weights)
    return (made, *kept)


def instance_normalization(node: Node) -> Value:
    x, gain, shift = node.all_values()
    own = node.emit("channel_statistics", x, by_sample=True)
    weights = (beside(node, one, x) for one in (gain, shift))
    return node.emit("normalize", *by_channel(node, x, *own, node.attr("epsilon", 1e-5)), *weights)


def mean_variance_normalization(node: Node) -> Value:
    x = node.value()
    if tuple(node.attr("axes", [0, 2, 3])) != (0, 2, 3):
        raise LeftOut("statistics over other axes than those of channels")
    own = node.emit("channel_statistics", x)
    return node.emit("normalize", *by_channel(node, x, *own, 0.0), affine=False)


def group_normalization(node: Node) -> Value:
    x, gain, shift = node.all_values()
    batch, channels, *size = x.type.shape
    groups = node.attr("num_groups")
    each = channels // groups * math.prod(size)
    rows, _, _ = node.emit("layer_norm", node.reshape(x, batch, groups, each), eps=epsilon(node))
    gain, shift = (beside(node, one, x) for one in (gain, shift))
    scaled = node.emit("multiply", node.reshape(rows, *x.type.shape), gain)
    return node.emit("add", scaled, shift)


def epsilon(node: Node) -> float:
    """What is added to a variance."""
    return node.attr("epsilon", 1e-5)


def resize(node: Node, scales: int = 2, sizes: int = 3) -> Value:
    """The nearest pixel of images that are larger by whole factors."""
    x, reason = node.value(), "resizing other than to the nearest pixel by whole factors"
    modes = node.attr("coordinate_transformation_mode", "half_pixel"), node.attr("nearest_mode", "")
    repeats = (("half_pixel", ""), ("half_pixel", "round_prefer_floor"), ("asymmetric", "floor"))
    if node.attr("mode", "nearest") != "nearest" or modes not in repeats:
        raise LeftOut(reason)
    shape, axes = x.type.shape, node.attr("axes", range(len(x.type.shape)))
    if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise LeftOut(reason)
    asked = node.array(scales) if node.has(scales) else None
    factors = [1.0] * len(shape)
    for place, axis in enumerate(axes):
        wanted = node.array(sizes)[place] / shape[axis] if asked is None else asked[place]
        factors[axis] = float(wanted)
    if any(factor != int(factor) for factor in factors) or factors[:2] != [1, 1]:
        raise LeftOut(reason)
    kernel = tuple(int(factor) for factor in factors[2:])
    size = tuple(n * factor for n, factor in zip(shape[2:], kernel, strict=True))
    return node.emit("window_spread", x, kernel=kernel, size=size)


def depth_to_space(node: Node) -> Value:
    x, r = node.value(), node.attr("blocksize")
    batch, deep, height, width = x.type.shape
    if node.attr("mode", "DCR") == "DCR":
        shape, axes = (r, r, deep // r**2), (0, 3, 4, 1, 5, 2)
    else:
        shape, axes = (deep // r**2, r, r), (0, 1, 4, 2, 5, 3)
    parts = node.reshape(x, batch, *shape, height, width)
    turned = node.emit("transpose", parts, axes=axes)
    return node.reshape(turned, batch, deep // r**2, height * r, width * r)


def space_to_depth(node: Node) -> Value:
    x, r = node.value(), node.attr("blocksize")
    batch, channels, height, width = x.type.shape
    parts = node.reshape(x, batch, channels, height // r, r, width // r, r)
    first = node.attr("mode", "DCR") == "DCR"
    axes = (0, 3, 5, 1, 2, 4) if first else (0, 1, 3, 5, 2, 4)
    turned = node.emit("transpose", parts, axes=axes)
    return node.reshape(turned, batch, channels * r**2, height // r, width // r)


RULES = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "DepthToSpace": depth_to_space,
    "GlobalAveragePool": lambda node: global_pool(node, "window_sum", mean=True),
    "GlobalMaxPool": lambda node: global_pool(node, "max_pool"),
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "MaxPool": max_pool,
    "MeanVarianceNormalization": mean_variance_normalization,
    "Resize": resize,
    "SpaceToDepth": space_to_depth,
    "Upsample": lambda node: resize(node, scales=1),
}
