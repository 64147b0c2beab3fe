"""What is said of a module: fixed parameters, other initial values, gates for gradients; and
branches beside a module.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from says import says

import noeira
from noeira.errors import CompositionError, OptionError
from noeira.job import job_of
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    AdamW,
    Add,
    Deterministic,
    Fused,
    GradGate,
    Graph,
    Group,
    InitWith,
    InputSlot,
    Linear,
    Node,
    Normal,
    ProjectedResidual,
    ReLU,
    RepeatConditional,
    Sequential,
    SkipConcat,
    StopGrad,
    StopGradParams,
    Tanh,
    Tokenwise,
    Zero,
)

TARGETS = (
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
)
X = np.random.default_rng(0).standard_normal((8, 4)).astype("f4")
Y = np.ones((8, 2), "f4")
Fixed = Sequential[Linear[4, 5], StopGradParams[Linear[5, 6]], Tanh, Linear[6, 2]]


@pytest.mark.parametrize("target", TARGETS)
def test_fixed_parameters(target: str) -> None:
    assert list(Fixed.parameters()) == list(
        Sequential[Linear[4, 5], Linear[5, 6], Tanh, Linear[6, 2]].parameters()
    )
    options = {"loss": MSE, "batch": 8, "seed": 1, "target": target}
    fixed = noeira.compile(Fixed, optimizer=AdamW(lr=0.1, weight_decay=0.5), **options)
    before = {name: value.copy() for name, value in fixed.params.items()}
    assert fixed.step(X, Y) > fixed.step(X, Y)
    moved = {name for name, value in fixed.params.items() if (value != before[name]).any()}
    assert moved == {name for name in before if not name.startswith("1.")}
    # The gradients of all others are as they would be.
    free = Sequential[Linear[4, 5], Linear[5, 6], Tanh, Linear[6, 2]]
    programs = [noeira.compile(net, **options) for net in (Fixed, free)]
    losses = [program.gradients(X, Y) for program in programs]
    assert losses[0] == losses[1]
    for name in before:
        held, own = (program.module.parameter(name).grd for program in programs)
        assert np.array_equal(held, np.zeros_like(own) if name.startswith("1.") else own)


def test_what_is_fixed_in_a_program() -> None:
    step = job_of(Fixed, loss=MSE, optimizer=Adam, batch=8).step()
    assert 'vjp{groups = [["1.*", [["frozen", true]]]]}' in step.todo
    assert "%1.weight.fixed = stop_gradient(%1.weight)" in str(step.graph)
    assert "stop_gradient" not in str(job_of(Fixed, loss=None, batch=8).forward().graph)
    with pytest.raises(OptionError, match="has no parameters that are not fixed"):
        noeira.compile(StopGradParams[Linear[4, 2]], loss=MSE, optimizer=SGD)
    with pytest.raises(OptionError, match=r"groups: '1\.\*' matches no parameter"):
        groups = {"1.*": Group(lr_factor=0.5)}
        noeira.compile(Fixed, loss=MSE, optimizer=SGD, groups=groups)


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_stop(target: str) -> None:
    program = noeira.compile(
        Sequential[Linear[4, 5], StopGrad, Linear[5, 2]], loss=MSE, batch=8, target=target
    )
    program.gradients(X, Y)
    assert not program.module[0].weight.grd.any()
    assert program.module[2].weight.grd.any()


@pytest.mark.parametrize("target", TARGETS)
def test_a_gate_for_gradients(target: str) -> None:
    for net in (
        Sequential[Linear[4, 5], GradGate, Linear[5, 2]],
        Sequential[Fused[Linear[4, 5], GradGate, ReLU], Linear[5, 2]],
    ):
        program = noeira.compile(net, loss=MSE, batch=8, target=target)
        module = program.module
        first, gate = [*(module if len(module) == 3 else module[0])][:2]
        losses, flows = list[float](), list[bool]()
        for open in (True, False, True):
            gate.open.val[...] = open
            losses.append(program.gradients(X, Y))
            flows.append(bool(first.weight.grd.any()))
        assert len(set(losses)) == 1
        assert flows == [True, False, True]
    assert (
        len(noeira.explain(GradGate, loss=None, input=(3,)).launches) == 1
    )  # the copy that is given


def test_other_initial_values() -> None:
    net = Sequential[
        Linear[4, 5],
        InitWith[Linear[5, 5], Zero],
        InitWith[Sequential[Linear[5, 5], InitWith[Linear[5, 2], Normal[0.0, 9.0]]], Deterministic],
    ]
    assert eval(repr(net)) is net
    assert pickle.loads(pickle.dumps(net)) is net
    weights = [name for name in net.parameters() if name.endswith("weight")]
    assert weights == ["0.weight", "1.weight", "2.0.weight", "2.1.weight"]
    made = net(seed=1)
    plain = Sequential[Linear[4, 5], Linear[5, 5], Sequential[Linear[5, 5], Linear[5, 2]]](seed=1)
    assert np.array_equal(made[0].weight.val, plain[0].weight.val)
    assert not made[1].weight.val.any()
    assert np.isclose(made.parameter("2.0.weight").val[0, 1], -0.2)
    assert abs(made.parameter("2.1.weight").val).max() > 5
    with pytest.raises(OptionError, match="init must be an initialiser such as Kaiming, not 3"):
        InitWith[Linear[3, 4], 3]
    with pytest.raises(CompositionError, match="INIT is missing; write InitWith"):
        InitWith[Linear[3, 4]]


def test_tokenwise_is_its_module() -> None:
    net = Tokenwise[Linear[3, 4]]
    assert str(net.shapes()) == "(*, 3) -> (*, 4)"
    assert list(net.parameters()) == ["0.weight", "0.bias"]
    with pytest.raises(CompositionError, match=r"write Tokenwise\[Linear\[3, 4\]\]$"):
        Tokenwise[7, Linear[3, 4]]  # type: ignore[misc]
    with pytest.raises(
        CompositionError, match=r"or Tokenwise\[Linear\[3, 4\]\] to Tokenwise\[Linear\[3, 5"
    ):
        Sequential[Tokenwise[Linear[3, 4]], Linear[5, 6]]


def test_branches_beside_a_module() -> None:
    projected = ProjectedResidual[Sequential[Linear[4, 8], ReLU, Linear[8, 2]], Linear[4, 2]]
    joined = SkipConcat[Linear[4, 2]]
    assert [eval(repr(net)) for net in (projected, joined)] == [projected, joined]
    assert str(projected.shapes()) == "(*, 4) -> (*, 2)"
    assert str(joined.shapes()) == "(*, 4) -> (*, 6)"
    assert str(SkipConcat.of(ReLU, axis=-3).shapes()) == "(*, W, W2, W3) -> (*, 2*W, W2, W3)"
    first = noeira.compile(projected, batch=8, target="reference")
    p = first.params
    hidden = np.maximum(X @ p["0.0.weight"], 0) @ p["0.2.weight"]
    assert np.allclose(first.forward(X), hidden + X @ p["1.weight"], atol=1e-5)
    second = noeira.compile(joined, batch=8, target="reference")
    wanted = np.concatenate([X, X @ second.params["0.weight"]], -1)
    assert np.allclose(second.forward(X), wanted, atol=1e-5)


def test_branches_that_do_not_fit() -> None:
    says(
        lambda: ProjectedResidual[Linear[3, 5], Linear[3, 4]],
        """ProjectedResidual adds what its two modules give: they must give the same

    ProjectedResidual[Linear[3, 5], Linear[3, 4]]
                      ~~~~~~~~~~~~  ~~~~~~~~~~~~
                      gives (*, 5)  gives (*, 4)""",
    )
    with pytest.raises(CompositionError, match="they must take the same"):
        ProjectedResidual[Linear[2, 4], Linear[3, 4]]
    says(
        lambda: SkipConcat.of(Linear[3, 4], axis=-2),
        """SkipConcat puts M(x) beside x: they may differ in axis -2 only

    SkipConcat[Linear[3, 4]]
               ~~~~~~~~~~~~
               takes (*, 3), gives (*, 4)""",
    )


def test_blocks_with_one_conditioning() -> None:
    block = Graph[
        InputSlot["x", "*", 4],
        InputSlot["c", "*", 2],
        Node["e", Linear[2, 4], "c"],
        Node["y", Add, "x", "e"],
    ]
    net = RepeatConditional[3, block]
    assert eval(repr(net)) is net
    assert str(net.shapes()) == "(*, 4), (*, 2) -> (*, 4)"
    program = noeira.compile(net, loss=MSE, batch=8, target="reference")
    c = np.ones((8, 2), "f4")
    wanted = X + sum(c @ program.params[f"{i}.e.weight"] for i in range(3))
    assert np.allclose(program.forward((X, c)), wanted, atol=1e-5)
    with pytest.raises(CompositionError, match="its module takes two values"):
        RepeatConditional[3, ReLU]
