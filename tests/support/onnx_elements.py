"""What ONNX operators on elements, products of matrices and optimizers are in ops of noeira."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from onnx_cases import LeftOut, Node, Rule

from noeira.ir.graph import Value

# An update at which nothing is left of Adam's correction for moments that begin as zeros.
LATE = 1 << 40


def plain(op: str, **named: Any) -> Rule:
    """An op of all operands; named: attributes of ours, and what ONNX calls each, with its default
    there.
    """

    def rule(node: Node) -> Value:
        attrs = {ours: node.attr(*theirs) for ours, theirs in named.items()}
        return node.emit(op, *node.all_values(), **attrs)

    return rule


def chain(op: str) -> Rule:
    """An op of two operands, for any number of them."""

    def rule(node: Node) -> Value:
        return reduce(lambda a, b: node.emit(op, a, b), node.all_values())

    return rule


def mean(node: Node) -> Value:
    total = chain("add")(node)
    return node.emit("scale", total, factor=1 / len(node.arrays))


def clip(node: Node) -> Value:
    x, (low, high) = node.value(), (node.array(place) for place in (1, 2))
    if low is not None and high is not None:
        return node.emit("clamp", x, low=float(low), high=float(high))
    if low is not None:
        return node.emit("maximum", x, node.value(1))
    return x if high is None else node.emit("minimum", x, node.value(2))


def gelu(node: Node) -> Value:
    tanh = node.attr("approximate", "none") == "tanh"
    return node.emit("gelu_tanh" if tanh else "gelu", node.value())


def swish(node: Node) -> Value:
    x, alpha = node.value(), node.attr("alpha", 1.0)
    if alpha == 1:
        return node.emit("silu", x)
    return node.emit("multiply", x, node.emit("sigmoid", node.emit("scale", x, factor=alpha)))


def swish_gate(node: Node) -> Value:
    return node.emit("multiply", swish(node), node.value(1))


def celu(node: Node) -> Value:
    alpha = node.attr("alpha", 1.0)
    inner = node.emit("elu", node.emit("scale", node.value(), factor=1 / alpha))
    return node.emit("scale", inner, factor=alpha)


def selu(node: Node) -> Value:
    alpha, gamma = node.attr("alpha", 1.6732632), node.attr("gamma", 1.0507010)
    return node.emit("scale", node.emit("elu", node.value(), alpha=alpha), factor=gamma)


def parametric_relu(node: Node) -> Value:
    x, slope = node.all_values()
    negative = node.emit("relu", node.emit("scale", x, factor=-1.0))
    return node.emit("subtract", node.emit("relu", x), node.emit("multiply", slope, negative))


def absolute(node: Node, x: Value) -> Value:
    """|x|"""
    return node.emit("maximum", x, node.emit("scale", x, factor=-1.0))


def softsign(node: Node) -> Value:
    x = node.value()
    return node.emit("divide", x, node.emit("add", absolute(node, x), node.constant(1.0, x)))


def hard_sigmoid(node: Node, alpha: float = 0.2, beta: float = 0.5) -> Value:
    x = node.value()
    scaled = node.emit("scale", x, factor=node.attr("alpha", alpha))
    moved = node.emit("add", scaled, node.constant(node.attr("beta", beta), x))
    return node.emit("clamp", moved)


def hard_swish(node: Node) -> Value:
    return node.emit("multiply", node.value(), hard_sigmoid(node, 1 / 6))


def reciprocal(node: Node) -> Value:
    x = node.value()
    return node.emit("divide", node.constant(1.0, x), x)


def where(node: Node) -> Value:
    condition, a, b = node.all_values()
    taken, hidden = (node.emit("where_open", one, condition) for one in (a, b))
    return node.emit("add", taken, node.emit("subtract", b, hidden))


def dropout(node: Node) -> Value:
    trains, rate = node.array(2), node.array(1)
    if trains is not None and bool(trains) and (rate is None or float(rate)):
        raise LeftOut("random numbers, which are others in noeira")
    return node.value()


def cast(node: Node) -> Value:
    from onnx import helper

    # Not the type of the result: bfloat16 may have another name there.
    names = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16"}
    known = {helper.TensorProto.DataType.Value(name): ours for name, ours in names.items()}
    if node.attr("to") not in known:
        raise LeftOut("casts to other than floats of 16, 32 and 64 bits")
    return node.emit("cast", node.value(), dtype=known[node.attr("to")])


def product(node: Node) -> Value:
    a, b = node.all_values()
    if len(b.type.shape) > 2:
        raise LeftOut("batches of matrices on the right of a product")
    rows = a.type.shape[:-1]
    right = b if len(b.type.shape) == 2 else node.reshape(b, -1, 1)
    left = a if rows else node.reshape(a, 1, -1)
    made = node.emit("matmul", left, right)
    shape = (*rows, *b.type.shape[1:])
    return made if made.type.shape == shape else node.emit("reshape", made, shape=shape)


def general_product(node: Node) -> Value:
    a, b = node.value(0), node.value(1)
    first, second = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if first and second:
        a, first = node.emit("transpose", a, axes=(1, 0)), False
    if node.has(2) and not (first or second) and alpha == beta == 1:
        c = node.value(2)
        if c.type.shape == (1, b.type.shape[1]):
            return node.emit("linear", a, b, node.reshape(c, -1))
    made = node.emit("matmul", a, b, transpose_a=first, transpose_b=second)
    made = made if alpha == 1 else node.emit("scale", made, factor=alpha)
    if not node.has(2):
        return made
    c = node.value(2)
    return node.emit("add", made, c if beta == 1 else node.emit("scale", c, factor=beta))


def updates(node: Node, kinds: int) -> Iterator[tuple[Value, ...]]:
    """For each tensor of an optimizer its values, of so many kinds; ONNX has all of a kind before
    those of the next one.
    """
    count = (len(node.arrays) - 2) // kinds
    for tensor in range(count):
        yield tuple(node.value(2 + tensor + kind * count) for kind in range(kinds))


def in_turn(made: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    """All results of a kind before those of the next one."""
    return tuple(one for kind in zip(*made, strict=True) for one in kind)


def optimizer(node: Node, op: str, kinds: int, step: int, **attrs: Any) -> tuple[Value, ...]:
    """A step of an optimizer for each tensor; step: updates before it."""
    rate = node.value(0)
    node.arrays[1] = np.array(step, "i8")
    count, ok = node.value(1), node.emit("finite", rate)
    decay = node.attr("norm_coefficient", 0.0)
    made = []
    for p, g, *moments in updates(node, kinds):
        results = node.emit(op, p, g, rate, count, ok, *moments, weight_decay=decay, **attrs)
        made.append(results)
    return in_turn(made)


def adam(node: Node) -> tuple[Value, ...]:
    if node.attr("norm_coefficient_post", 0.0):
        raise LeftOut("decay behind the update")
    begun = int(node.array(1)) - 1
    attrs = {"beta1": node.attr("alpha"), "beta2": node.attr("beta"), "eps": node.attr("epsilon")}
    return optimizer(node, "adam", 4, begun if begun >= 0 else LATE, **attrs)


def adagrad(node: Node) -> tuple[Value, ...]:
    attrs = {"lr_decay": node.attr("decay_factor", 0.0), "eps": node.attr("epsilon")}
    return optimizer(node, "adagrad", 3, int(node.array(1)), **attrs)


def momentum(node: Node) -> tuple[Value, ...]:
    # At the first update, T = 0, the gradient counts whole; noeira knows of moments before it.
    step = int(node.array(1))
    attrs = {"momentum": node.attr("alpha"), "nesterov": node.attr("mode") == "nesterov"}
    if step:
        attrs["dampening"] = 1 - node.attr("beta")
    return optimizer(node, "sgd", 3, max(step, 1), **attrs)


RULES = {
    "Abs": lambda node: absolute(node, node.value()),
    "Adagrad": adagrad,
    "Adam": adam,
    "Add": plain("add"),
    "Cast": cast,
    "Celu": celu,
    "Clip": clip,
    "Div": plain("divide"),
    "Dropout": dropout,
    "Elu": plain("elu", alpha=("alpha", 1.0)),
    "Exp": plain("exp"),
    "Gelu": gelu,
    "Gemm": general_product,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Identity": lambda node: node.value(),
    "LeakyRelu": plain("leaky_relu", slope=("alpha", 0.01)),
    "Log": plain("log"),
    "MatMul": product,
    "Max": chain("maximum"),
    "Mean": mean,
    "Min": chain("minimum"),
    "Mish": plain("mish"),
    "Momentum": momentum,
    "Mul": plain("multiply"),
    "Neg": lambda node: node.emit("scale", node.value(), factor=-1.0),
    "PRelu": parametric_relu,
    "Reciprocal": reciprocal,
    "Relu": plain("relu"),
    "Selu": selu,
    "Sigmoid": plain("sigmoid"),
    "Softplus": plain("softplus"),
    "Softsign": softsign,
    "Sub": plain("subtract"),
    "Sum": chain("add"),
    "SwiGLU": swish_gate,
    "Swish": swish,
    "Tanh": plain("tanh"),
    "Where": where,
}
