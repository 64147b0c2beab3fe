"""Graph: modules that read each other by name, alone, in other types, and in one kernel."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.nn import (
    MSE,
    SGD,
    AdamW,
    Add,
    Concat,
    ExternalNode,
    Fused,
    Graph,
    InputSlot,
    Linear,
    Mul,
    Node,
    Output,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    Softplus,
    StopGradParams,
    Sub,
    Tanh,
)

TARGETS = (
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
)
Highway = Graph[
    InputSlot["x", 4],
    Node["h", Linear[4, 3], "x"],
    Node["a", Tanh, "h"],
    Node["g", Linear[3, 4], "a"],
    Node["y", Add, "g", "x"],
]
Two = Graph[
    InputSlot["x", "*", 4],
    InputSlot["c", "*", 2],
    Node["e", Linear[2, 4], "c"],
    Node["s", Add, "x", "e"],
    Node["p", Mul, "x", "s"],
    Output["s", "p"],
]
Critic = Graph[
    InputSlot["state", 4],
    InputSlot["action", 2],
    Node["both", Concat, "state", "action"],
    Node["q", Linear[6, 1], "both"],
]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4")


def test_a_graph_is_a_type_like_others() -> None:
    for net in (Highway, Two, Critic, Graph[InputSlot["x"], Node["y", ReLU, "x"]]):
        assert eval(repr(net)) is net
        assert pickle.loads(pickle.dumps(net)) is net
        assert copy.deepcopy(net) is net
        assert hash(net) == hash(eval(repr(net)))
    assert repr(Two).startswith('Graph[InputSlot["x", "*", 4], InputSlot["c", "*", 2], Node["e", ')
    assert str(Highway.shapes()) == "(4) -> (4)"
    assert str(Two.shapes()) == "(*, 4), (*, 2) -> (*, 4), (*, 4)"
    assert str(Critic.shapes()) == "(4), (2) -> (1)"
    assert list(Two.parameters()) == ["e.weight", "e.bias"]
    shared = Graph[InputSlot["x", "T", 3], InputSlot["y", "T", 3], Node["s", Add, "x", "y"]]
    assert str(shared.shapes()) == "(T, 3), (T, 3) -> (T, 3)"
    scalar = Graph[InputSlot["x", ()], Node["y", Tanh, "x"]]
    assert (eval(repr(scalar)), str(scalar.shapes())) == (scalar, "() -> ()")


def test_an_instance_has_its_nodes_by_name() -> None:
    net = Highway()
    assert repr(net.h.weight) == "<Parameter h.weight [4, 3]>"
    assert net[2] is net.g
    assert [type(part) for part in net] == [Linear[4, 3], Tanh, Linear[3, 4], Add]
    with pytest.raises(AttributeError, match="its modules are h, a, g, y"):
        net.z  # noqa: B018


@pytest.mark.parametrize("target", TARGETS)
def test_values_and_gradients(target: str) -> None:
    x, wanted = drawn(5, 4), drawn(5, 4)
    program = noeira.compile(Highway, loss=MSE, optimizer=SGD(lr=0.1), batch=5, target=target)
    p = {name: value.copy() for name, value in program.params.items()}
    hidden = np.tanh(x @ p["h.weight"])
    y = hidden @ p["g.weight"] + x
    assert np.allclose(program.forward(x), y, atol=1e-5)
    program.gradients(x, wanted)
    d = 2 * (y - wanted) / y.size
    assert np.allclose(program.module.g.weight.grd, hidden.T @ d, atol=1e-5)
    d_hidden = d @ p["g.weight"].T * (1 - hidden**2)
    assert np.allclose(program.module.h.weight.grd, x.T @ d_hidden, atol=1e-5)
    assert program.step(x, wanted) > program.step(x, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_several_inputs_and_outputs(target: str) -> None:
    x, c = drawn(3, 4), drawn(3, 2)
    program = noeira.compile(Two, batch=3, target=target)
    s, p = program.forward((x, c))
    wanted = x + c @ program.params["e.weight"]
    assert np.allclose(s, wanted, atol=1e-5)
    assert np.allclose(p, x * wanted, atol=1e-5)


def test_inside_other_types() -> None:
    net = Sequential[Linear[2, 4], Residual[Highway], Repeat[2, Highway], Linear[4, 1]]
    assert str(net.shapes()) == "(2) -> (1)"
    assert "2.1.g.weight" in net.parameters()
    one = Graph[
        InputSlot["x", 4],
        InputSlot["c", 2],
        Node["e", Linear[2, 4], "c"],
        Node["s", Add, "x", "e"],
    ]
    assert str(Repeat[3, one].shapes()) == "(4), (2) -> (4)"
    inner = Graph[InputSlot["x"], Node["t", Tanh, "x"], Node["y", Mul, "x", "t"]]
    fused = Fused[Linear[4, 3], inner]
    assert len(noeira.explain(fused, loss=None).launches) == 1
    twice = Graph[
        InputSlot["x", 4],
        Node["a", Two, "x", "c"],
        InputSlot["c", 2],
        Node["y", Sub, "a.1", "a.0"],
    ]
    x, c = drawn(2, 4), drawn(2, 2)
    program = noeira.compile(twice, batch=2, target="reference")
    s = x + c @ program.params["a.e.weight"]
    assert np.allclose(program.forward((x, c)), x * s - s, atol=1e-6)


def test_what_an_input_is_its_readers_say() -> None:
    from noeira.ir.graph import Value
    from noeira.nn import Module, Scope

    class Numbers(Module):
        signature = "(*: i32 < 7) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return scope.emit("cast", x, dtype=scope.dtype)

    for slot in (InputSlot["n"], InputSlot["n", "T"]):
        net = Graph[slot, Node["f", Numbers, "n"], Node["y", Softplus, "f"]]
        (given,) = net.shapes().inputs
        assert (given.dtype, given.limit) == ("i32", 7)
    program = noeira.compile(net, batch=2, input=(3,), target="reference")
    assert program.forward(np.ones((2, 3), "i4")).dtype == np.float32


@pytest.mark.parametrize("target", TARGETS)
def test_parameters_that_stand_elsewhere(target: str) -> None:
    encoder = Linear[4, 3]
    net = Graph[
        InputSlot["a", 4],
        InputSlot["b", 4],
        Node["e", encoder, "a"],
        ExternalNode.of("f", encoder, "b", owner="e"),
        Node["d", Sub, "e", "f"],
    ]
    assert eval(repr(net)) is net
    assert list(net.parameters()) == ["e.weight", "e.bias"]
    a, b, wanted = drawn(6, 4), drawn(6, 4) * 2, drawn(6, 3)
    program = noeira.compile(net, loss=MSE, batch=6, target=target)
    made = (a - b) @ program.params["e.weight"]
    assert np.allclose(program.forward((a, b)), made, atol=1e-5)
    program.gradients((a, b), wanted)
    d = 2 * (made - wanted) / made.size
    assert np.allclose(program.module.e.weight.grd, (a - b).T @ d, atol=1e-5)
    assert np.allclose(program.module.e.bias.grd, 0, atol=1e-6)


def test_an_actor_learns_through_a_critic_that_it_does_not_train() -> None:
    net = Graph[
        InputSlot["state", 4],
        InputSlot["action", 2],
        Node["critic", Critic, "state", "action"],
        Node["actor", Linear[4, 2], "state"],
        ExternalNode.of("value", StopGradParams[Critic], "state", "actor", owner="critic"),
        Output["value"],
    ]
    state, action = drawn(5, 4), drawn(5, 2)
    program = noeira.compile(net, loss=MSE, optimizer=AdamW(lr=0.1), batch=5, target="reference")
    before = {name: value.copy() for name, value in program.params.items()}
    wanted = np.ones((5, 1), "f4")
    losses = [program.step((state, action), wanted) for _ in range(20)]
    assert losses[-1] < losses[0]
    for name in ("critic.q.weight", "critic.q.bias"):
        assert np.array_equal(program.module.parameter(name).grd, np.zeros_like(before[name]))
    moved = {name for name, value in program.params.items() if (value != before[name]).any()}
    assert "actor.weight" in moved


def test_the_nearest_module_around_has_the_parameters() -> None:
    head = Graph[InputSlot["s"], ExternalNode["critic", Linear[4, 1], "s"]]
    net = Graph[
        InputSlot["s", 4],
        Node["critic", Linear[4, 1], "s"],
        Node["inner", Sequential[Tanh, head], "s"],
        Output["critic", "inner"],
    ]
    s = drawn(3, 4)
    program = noeira.compile(net, batch=3, target="reference")
    direct, inner = program.forward(s)
    assert np.allclose(direct, s @ program.params["critic.weight"], atol=1e-6)
    assert np.allclose(inner, np.tanh(s) @ program.params["critic.weight"], atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_fused_graph_is_one_kernel(target: str) -> None:
    kernel = Fused[Node["s", Add, "x", "f"], Node["y", Tanh, "s"]]
    assert eval(repr(kernel)) is kernel
    assert str(kernel.shapes()) == "(*), (*) -> (*)"
    block = Graph[InputSlot["x", 5], Node["f", Linear[5, 5], "x"], Node["y", kernel, "x", "f"]]
    apart = Graph[
        InputSlot["x", 5],
        Node["f", Linear[5, 5], "x"],
        Node["s", Add, "x", "f"],
        Node["y", Tanh, "s"],
    ]
    ops = [launch.op for launch in noeira.explain(block, loss=None).launches]
    assert ops == ["linear", "fused[add, tanh]"]
    x, wanted = drawn(7, 5), drawn(7, 5)
    losses = [
        noeira.compile(net, loss=MSE, batch=7, target=target, seed=3).gradients(x, wanted)
        for net in (block, apart)
    ]
    assert losses[0] == losses[1]


def test_a_fused_graph_with_a_product_and_its_parameters() -> None:
    kernel = Fused[Node["h", Linear[4, 3], "x"], Node["s", Add, "h", "f"], Node["y", ReLU, "s"]]
    assert str(kernel.shapes()) == "(*, 4), (*, 3) -> (*, 3)"
    assert list(kernel.parameters()) == ["h.weight", "h.bias"]
    assert len(noeira.explain(kernel, loss=None).launches) == 1
    kept = Fused[Node["s", Add, "x", "f"], Node["y", Tanh, "s"], Output["y", "s"]]
    assert str(kept.shapes()) == "(*), (*) -> (*), (*)"
