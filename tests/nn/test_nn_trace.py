"""Tracing: the nodes that each module emits, their names, their places and their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noeira.errors import FusionError
from noeira.ir.builder import Builder
from noeira.ir.graph import Node, Value
from noeira.ir.types import TensorType
from noeira.nn import (
    ELU,
    GELU,
    MSE,
    Accuracy,
    Clamp,
    CrossEntropy,
    Fused,
    GELUTanh,
    LeakyReLU,
    Linear,
    LinearReLU,
    Mish,
    Module,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Scope,
    Sequential,
    Sigmoid,
    SiLU,
    SoftCrossEntropy,
    Softplus,
    Symlog,
    Tanh,
    TopK,
)


def traced(net: type[Module], *shapes: Any, path: str = "") -> tuple[Builder, Any]:
    """The builder after tracing a type on inputs of these types, and the output."""
    builder = Builder("test")
    values = {p: Value(p, TensorType("f32", info.shape)) for p, info in net.parameters().items()}
    types = [s if isinstance(s, TensorType) else TensorType("f32", s) for s in shapes]
    inputs = [builder.input(f"x{i}", type) for i, type in enumerate(types)]
    return builder, Scope(builder, net, values, path=path).run(*inputs)


def lines(builder: Builder) -> list[str]:
    """One line a node: names of results, op, names of operands, place, group."""

    def line(n: Node) -> str:
        outs, ins = (", ".join(v.name for v in vs) for vs in (n.outputs, n.inputs))
        group = f" in {n.group}" if n.group else ""
        return f"{outs} = {n.op.name}({ins}) at {n.origin.path}: {n.origin.type}{group}"

    return [line(n) for n in builder.nodes]


def test_a_chain():
    builder, out = traced(Sequential[Linear[4, 3], ReLU, Linear[3, 2, False]], (5, 4))
    assert lines(builder) == [
        "0.linear = linear(x0, 0.weight, 0.bias) at 0: Linear[4, 3]",
        "1.relu = relu(0.linear) at 1: ReLU",
        "2.linear = linear(1.relu, 2.weight) at 2: Linear.of(3, 2, bias=False)",
    ]
    assert str(out.type) == "f32[5, 2]"
    assert {n.origin.by for n in builder.nodes} == {"trace"}


def test_the_root_has_no_path():
    builder, _ = traced(Linear[4, 3], (5, 4))
    assert lines(builder) == ["linear = linear(x0, weight, bias) at net: Linear[4, 3]"]


def test_a_fused_type_emits_its_parts_in_one_group():
    builder, _ = traced(Sequential[LinearReLU[4, 3], Linear[3, 2]], (5, 4))
    assert lines(builder) == [
        "0.linear = linear(x0, 0.weight, 0.bias) at 0: Linear[4, 3] in 0",
        "0.relu = relu(0.linear) at 0: ReLU in 0",
        "1.linear = linear(0.relu, 1.weight, 1.bias) at 1: Linear[3, 2]",
    ]
    assert [(g.path, g.type) for g in builder.groups] == [("0", "LinearReLU[4, 3]")]


def test_a_fused_root_and_a_fused_chain():
    builder, _ = traced(Fused[ReLU, Tanh], (5, 4))
    assert lines(builder) == [
        "relu = relu(x0) at net: ReLU in net",
        "tanh = tanh(relu) at net: Tanh in net",
    ]
    assert [(g.path, g.type) for g in builder.groups] == [("net", "Fused[ReLU, Tanh]")]


def test_the_fused_and_the_unfused_twin_are_one_graph_without_groups():
    fused, _ = traced(Sequential[LinearReLU[4, 3], Linear[3, 2]], (5, 4))
    plain, _ = traced(Sequential[Linear[4, 3], ReLU, Linear[3, 2]], (5, 4))
    assert [n.op for n in fused.nodes] == [n.op for n in plain.nodes]
    assert [str(n.outputs[0].type) for n in fused.nodes] == [
        str(n.outputs[0].type) for n in plain.nodes
    ]


def test_combinators():
    builder, out = traced(Residual[Linear[4, 4]], (5, 4))
    assert lines(builder)[1] == "add = add(x0, 0.linear) at net: Residual[Linear[4, 4]]"
    builder, out = traced(Repeat[3, Residual[Tanh]], (5, 4))
    assert [n.outputs[0].name for n in builder.nodes] == [
        *("0.0.tanh", "0.add", "1.0.tanh", "1.add", "2.0.tanh", "2.add")
    ]
    builder, out = traced(Parallel[Linear[4, 3], ReLU, Linear[4, 2]], (5, 4))
    assert lines(builder)[-1].startswith("concat = concat(0.linear, 1.relu, 2.linear) at net")
    assert str(out.type) == "f32[5, 9]"


@pytest.mark.parametrize(
    ("layer", "op", "attrs"),
    [
        (ReLU, "relu", {}),
        (Tanh, "tanh", {}),
        (Sigmoid, "sigmoid", {}),
        (SiLU, "silu", {}),
        (GELU, "gelu", {}),
        (GELUTanh, "gelu_tanh", {}),
        (Mish, "mish", {}),
        (Softplus, "softplus", {}),
        (Symlog, "symlog", {}),
        (ELU, "elu", {"alpha": 1.0}),
        (ELU.of(alpha=0.5), "elu", {"alpha": 0.5}),
        (LeakyReLU[4, 0.2], "leaky_relu", {"slope": 0.2}),
        (Scale.of(multiplier=0.125), "scale", {"factor": 0.125}),
        (Clamp.of(low=-1, high=2), "clamp", {"low": -1.0, "high": 2.0}),
    ],
)
def test_elementwise_layers(layer: Any, op: str, attrs: dict[str, float]):
    builder, out = traced(layer, (5, 4))
    (node,) = builder.nodes
    assert node.op.name == op and out.name == op and out.type == node.inputs[0].type
    assert {name: getattr(node.attrs, name) for name in attrs} == attrs


def test_losses_and_metrics():
    ids = TensorType("i32", (5,))
    builder, loss = traced(CrossEntropy.of(smoothing=0.1), (5, 10), ids, path="loss")
    (node,) = builder.nodes
    assert loss is node.outputs[0] and str(loss.type) == "f32[]"
    assert (node.op.name, node.attrs.smoothing) == ("cross_entropy", 0.1)  # type: ignore[attr-defined]
    assert (node.origin.path, node.origin.type) == ("loss", "CrossEntropy.of(smoothing=0.1)")
    builder, loss = traced(SoftCrossEntropy, (5, 10), (5, 10), path="loss")
    assert builder.nodes[0].op.name == "soft_cross_entropy" and str(loss.type) == "f32[]"
    builder, loss = traced(MSE, (5, 10), (5, 10), path="loss")
    assert builder.nodes[0].op.name == "mse" and loss.name == "loss.mse" and loss.type.shape == ()
    for metric, k in ((Accuracy, 1), (TopK[3], 3)):
        builder, (correct, count) = traced(metric, (5, 10), ids)
        assert builder.nodes[0].attrs.k == k  # type: ignore[attr-defined]
        assert (correct, count) == builder.nodes[0].outputs


def test_a_fused_type_hidden_in_a_fused_type_is_refused():
    with pytest.raises(FusionError, match="inside another fused type"):
        Fused[Residual[LinearReLU[4, 4]], Tanh]


def test_a_fused_branching_part_is_asked_of_the_forms_too():
    made = Fused[Residual[Tanh], Tanh]
    builder, _ = traced(made, (5, 4))
    assert [n.group for n in builder.nodes] == ["net"] * 3


def test_types_are_made_without_allocating():
    made = LinearReLU[10**6, 10**6]
    assert made.parameters()["weight"].size == 10**12
    assert np.prod(made.gives((10**6,))) == 10**6
