"""What ONNX operators along axes are in ops of noeira: moves, reductions, rows and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx_cases import LeftOut, Node, Rule
from onnx_elements import absolute
from onnx_images import epsilon

from noeira.ir.broadcasting import common_shape, neighbours
from noeira.ir.graph import Value


def concat(node: Node) -> Value:
    return node.emit("concat", *node.all_values(), axis=node.attr("axis"))


def window(node: Node) -> Value:
    x = node.value()
    starts, ends = node.numbers(1), node.numbers(2)
    axes = node.numbers(3) if node.has(3) else tuple(range(len(starts)))
    if node.has(4) and any(step != 1 for step in node.numbers(4)):
        raise LeftOut("slices of every other element, or backwards")
    found = [
        range(x.type.shape[axis])[start:end]
        for axis, start, end in zip(axes, starts, ends, strict=True)
    ]
    if not all(found):
        raise LeftOut("tensors without elements")
    return node.emit(
        "slice",
        x,
        axes=axes,
        starts=tuple(part.start for part in found),
        lengths=tuple(map(len, found)),
    )


def pad(node: Node) -> Value:
    x = node.value()
    if node.attr("mode", "constant") != "constant":
        raise LeftOut("padding with other than one number")
    pads = node.numbers(1)
    axes = node.numbers(3) if node.has(3) else tuple(range(len(x.type.shape)))
    before, behind = pads[: len(axes)], pads[len(axes) :]
    lengths = tuple(
        x.type.shape[axis] + a + b for axis, a, b in zip(axes, before, behind, strict=True)
    )
    value = float(node.array(2)) if node.has(2) else 0.0
    return node.emit("pad", x, axes=axes, starts=before, lengths=lengths, value=value)


def transpose(node: Node) -> Value:
    x = node.value()
    axes = node.attr("perm") or reversed(range(len(x.type.shape)))
    return node.emit("transpose", x, axes=tuple(axes))


def reshape(node: Node) -> Value:
    x, asked = node.value(), node.numbers(1)
    shape = [x.type.shape[place] if n == 0 else n for place, n in enumerate(asked)]
    return node.reshape(x, *shape)


def flatten(node: Node) -> Value:
    x, axis = node.value(), node.attr("axis", 1)
    return node.reshape(x, math.prod(x.type.shape[:axis]), -1)


def squeeze(node: Node) -> Value:
    x = node.value()
    rank = len(x.type.shape)
    axes = {axis % rank for axis in node.numbers(1)}
    return node.reshape(x, *(n for axis, n in enumerate(x.type.shape) if axis not in axes))


def unsqueeze(node: Node) -> Value:
    x = node.value()
    rank = len(x.type.shape) + len(node.numbers(1))
    axes, rest = {axis % rank for axis in node.numbers(1)}, iter(x.type.shape)
    return node.reshape(x, *(1 if axis in axes else next(rest) for axis in range(rank)))


def expand(node: Node) -> Value:
    x = node.value()
    return node.emit("broadcast", x, shape=common_shape((x.type.shape, node.numbers(1))))


def tile(node: Node) -> Value:
    x, times = node.value(), node.numbers(1)
    apart = [n for length in x.type.shape for n in (1, length)]
    wide = [n for pair in zip(times, x.type.shape, strict=True) for n in pair]
    made = node.emit("broadcast", node.reshape(x, *apart), shape=tuple(wide))
    return node.reshape(made, *(a * b for a, b in zip(times, x.type.shape, strict=True)))


def split(node: Node) -> tuple[Value, ...]:
    x, axis = node.value(), node.attr("axis", 0)
    length = x.type.shape[axis]
    count = node.attr("num_outputs", node.attrs["outputs"])
    each = -(-length // count)
    lengths = node.numbers(1) if node.has(1) else (each,) * (count - 1)
    lengths = lengths if node.has(1) else (*lengths, length - sum(lengths))
    made, start = list[Value](), 0
    for part in lengths:
        made.append(node.emit("slice", x, axes=(axis,), starts=(start,), lengths=(part,)))
        start += part
    return tuple(made)


def reduced(step: Callable[[Node, Value, tuple[int, ...]], Value]) -> Rule:
    """A reduction, of which each step drops axes that lie side by side, the last first."""

    def rule(node: Node) -> Value:
        x = node.value()
        shape = x.type.shape
        rank = len(shape)
        asked = node.numbers(1) if node.has(1) else tuple(node.attr("axes", ()))
        if not asked and node.attr("noop_with_empty_axes", 0):
            return x
        every = sorted(axis % rank for axis in asked) or list(range(rank))
        made = x
        for run in reversed(neighbours(every, shape)):
            made = step(node, made, run)
        kept = [n if axis not in every else 1 for axis, n in enumerate(shape)]
        return node.reshape(made, *kept) if node.attr("keepdims", 1) else made

    return rule


def total(node: Node, x: Value, run: tuple[int, ...]) -> Value:
    return node.emit("sum", x, axes=run)


def average(node: Node, x: Value, run: tuple[int, ...]) -> Value:
    return node.emit("sum", x, axes=run, scale=1 / math.prod(x.type.shape[axis] for axis in run))


def greatest(node: Node, x: Value, run: tuple[int, ...]) -> Value:
    shape, first = x.type.shape, run[0]
    joined = math.prod(shape[first : run[-1] + 1])
    x = node.reshape(x, *shape[:first], joined, *shape[run[-1] + 1 :])
    return node.emit("pick", x, node.emit("argmax", x, axis=first), axis=first)


def opposite(node: Node, x: Value) -> Value:
    return node.emit("scale", x, factor=-1.0)


def least(node: Node, x: Value, run: tuple[int, ...]) -> Value:
    return opposite(node, greatest(node, opposite(node, x), run))


def between(before: Any, step: Any, behind: Any = None) -> Rule:
    """A reduction of what is made of the elements, and what is made of its result."""

    def rule(node: Node) -> Value:
        x = node.value()
        if before is not None:
            node.values[0] = before(node, x)
        made = reduced(step)(node)
        return made if behind is None else behind(node, made)

    return rule


def square(node: Node, x: Value) -> Value:
    return node.emit("multiply", x, x)


def exponential(node: Node, x: Value) -> Value:
    return node.emit("exp", x)


def logarithm(node: Node, x: Value) -> Value:
    return node.emit("log", x)


def argmin(node: Node) -> Value:
    node.values[0] = opposite(node, node.value())
    return argmax(node)


def argmax(node: Node) -> Value:
    if node.attr("select_last_index", 0):
        raise LeftOut("the last of equal maxima or minima")
    x, axis = node.value(), node.attr("axis", 0)
    made = node.emit("argmax", x, axis=axis)
    if not node.attr("keepdims", 1):
        return made
    kept = list(x.type.shape)
    kept[axis] = 1
    return node.reshape(made, *kept)


def hardmax(node: Node) -> Value:
    x, axis = node.value(), node.attr("axis", -1)
    place = node.emit("argmax", x, axis=axis)
    ones = node.emit("broadcast", node.constant(1.0, x), shape=place.type.shape)
    return node.emit("put", ones, place, axis=axis, length=x.type.shape[axis])


def along_last(op: str) -> Rule:
    """An op of rows along any axis."""

    def rule(node: Node) -> Value:
        x = node.value()
        rank = len(x.type.shape)
        axis = node.attr("axis", -1) % rank
        if axis == rank - 1:
            return node.emit(op, x)
        return last_moved_back(node, node.emit(op, last_moved(node, x, axis)), axis)

    return rule


def last_moved(node: Node, x: Value, axis: int) -> Value:
    """x with an axis as its last one."""
    axes = [*(n for n in range(len(x.type.shape)) if n != axis), axis]
    return node.emit("transpose", x, axes=tuple(axes))


def last_moved_back(node: Node, x: Value, axis: int) -> Value:
    """The opposite."""
    last = len(x.type.shape) - 1
    axes = list(range(last))
    axes.insert(axis, last)
    return node.emit("transpose", x, axes=tuple(axes))


def row_norm(op: str) -> Rule:
    """A normalisation over all axes from one on, as rows."""

    def rule(node: Node) -> tuple[Value, ...]:
        x, axis = node.value(), node.attr("axis", -1)
        shape, axis = x.type.shape, axis % len(x.type.shape)
        rows = (math.prod(shape[:axis]), math.prod(shape[axis:]))
        weights = [node.reshape(one, -1) for one in node.all_values()[1:]]
        made, *numbers = node.emit(op, node.reshape(x, *rows), *weights, eps=epsilon(node))
        kept = (*shape[:axis], *(1 for _ in shape[axis:]))
        return (node.reshape(made, *shape), *(node.reshape(one, *kept) for one in numbers))

    return rule


def classes_last(node: Node, x: Value) -> Value:
    """Classes are the second axis of ONNX, the last of noeira."""
    return x if len(x.type.shape) == 2 else last_moved(node, x, 1)


def check_ignored(node: Node) -> None:
    """Raises LeftOut where a class number is to be ignored that is there."""
    ignored = node.attr("ignore_index")
    if ignored is not None and np.any(node.array(1) == ignored):
        raise LeftOut("targets to be ignored")


def picked_losses(node: Node, logarithms: Value) -> Value:
    """What minus the logarithm of each target's probability is reduced to, perhaps weighted."""
    classes = logarithms.type.shape[-1]
    target, how = node.value(1, classes), node.attr("reduction", "mean")
    losses = opposite(node, node.emit("pick", logarithms, target))
    whole = losses.type.size
    if node.has(2):
        table = node.emit("broadcast", node.value(2), shape=logarithms.type.shape)
        weights = node.emit("pick", table, target)
        losses = node.emit("multiply", losses, weights)
    if how == "none":
        return losses
    if how == "sum":
        return node.emit("sum", losses)
    if not node.has(2):
        return node.emit("sum", losses, scale=1 / whole)
    return node.emit("divide", node.emit("sum", losses), node.emit("sum", weights))


def likelihood_loss(node: Node) -> Value:
    check_ignored(node)
    return picked_losses(node, classes_last(node, node.value()))


def cross_entropy(node: Node) -> tuple[Value, ...]:
    check_ignored(node)
    z = classes_last(node, node.value())
    logarithms = node.emit("log_softmax", z)
    told = logarithms if len(z.type.shape) == 2 else last_moved_back(node, logarithms, 1)
    if node.has(2):
        return picked_losses(node, logarithms), told
    target, how = node.value(1, z.type.shape[-1]), node.attr("reduction", "mean")
    loss, _ = node.emit("cross_entropy", z, target, reduction=how)
    return loss, told


RULES = {
    "ArgMax": argmax,
    "ArgMin": argmin,
    "Concat": concat,
    "Expand": expand,
    "Flatten": flatten,
    "Hardmax": hardmax,
    "LayerNormalization": row_norm("layer_norm"),
    "LogSoftmax": along_last("log_softmax"),
    "NegativeLogLikelihoodLoss": likelihood_loss,
    "Pad": pad,
    "RMSNormalization": row_norm("rms_norm"),
    "ReduceL1": between(absolute, total),
    "ReduceLogSum": between(None, total, logarithm),
    "ReduceLogSumExp": between(exponential, total, logarithm),
    "ReduceMax": reduced(greatest),
    "ReduceMean": reduced(average),
    "ReduceMin": reduced(least),
    "ReduceSum": reduced(total),
    "ReduceSumSquare": between(square, total),
    "Reshape": reshape,
    "Slice": window,
    "Softmax": along_last("softmax"),
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
