"""States of modules in programs: updated by good steps alone, read by evaluation, copied."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from stateful_layers import Brittle, Net, Noise

import noeira
from noeira.nn import MSE, SGD, Adam, CrossEntropy, Linear, Repeat, Sequential

TARGETS = ["reference", "cpu", "cuda-cpu"]


def data(rows: int, dtype: str = "f32") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and class numbers."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)).astype({"f32": "f4", "f64": "f8"}[dtype])
    return x, random.integers(0, 3, rows).astype(np.int32)


def compiled(target: str, dtype: Any = "f32", net: Any = Net) -> noeira.Program:
    """A training program."""
    options: Any = {"loss": CrossEntropy, "optimizer": Adam(lr=0.01), "batch": 5}
    return noeira.compile(net, target=target, dtype=dtype, seed=3, **options)


def states(program: noeira.Program) -> dict[str, np.ndarray]:
    """The states of the modules, copied."""
    paths = type(program.module).buffers()
    return {path: program.store.view("buffer", path).copy() for path in paths}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("target", TARGETS)
def test_steps_update_states(target: str, dtype: str) -> None:
    x, y = data(20, dtype)
    one, native = compiled(target, dtype), compiled(target, dtype)
    first = states(one)
    weight, bias = (one.params[f"0.{name}"].copy() for name in ("weight", "bias"))
    losses = [one.step(x[i : i + 5], y[i : i + 5]) for i in range(0, 20, 5)]
    native.load(x, y, shuffle=False)
    assert native.steps(4) == pytest.approx(float(np.mean(losses)), rel=1e-5)
    found, same = states(one), states(native)
    for path, array in found.items():
        assert array.tobytes() == same[path].tobytes(), path
    assert found["1.calls"] == found["3.calls"] == 4
    assert found["1.mean"].dtype == np.dtype(dtype.replace("f32", "f4").replace("f64", "f8"))
    assert found["1.scale"].tobytes() == first["1.scale"].tobytes()
    expected = np.full(6, 0.5)
    again = compiled(target, dtype)
    again.step(x[:5], y[:5])
    expected += 0.25 * ((x[:5] @ weight + bias).mean(0) - expected)
    np.testing.assert_allclose(states(again)["1.mean"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_that_is_not_ok_leaves_states_as_they_are(target: str) -> None:
    x, y = data(20)
    program = compiled(target)
    program.step(x[:5], y[:5])
    before = states(program)
    bad = x[5:10].copy()
    bad[2, 1] = np.nan
    assert np.isnan(program.step(bad, y[5:10]))
    for path, array in states(program).items():
        assert array.tobytes() == before[path].tobytes(), path
    x[12, 0] = np.nan
    program.load(x, y, shuffle=False)
    with pytest.raises(noeira.NotFiniteError, match=r"x\[12, 0\] is nan"):
        program.steps(4)
    assert states(program)["1.calls"] == 3 and np.isfinite(states(program)["3.mean"]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_update_nothing_and_evaluation_reads(target: str) -> None:
    x, y = data(10)
    program = compiled(target)
    before = states(program)
    program.gradients(x[:5], y[:5])
    program.load(x, y, evaluation=(x, y), shuffle=False)
    low, output = program.evaluate()["loss"], program.forward(x)
    for path, array in states(program).items():
        assert array.tobytes() == before[path].tobytes(), path
    program.module[1].mean.val[...] += 5.0
    assert not np.allclose(program.forward(x), output) and program.evaluate()["loss"] != low


def test_random_states_differ_from_each_other_and_follow_from_the_seed() -> None:
    one, two, other = Net(seed=3), Net(seed=3), Net(seed=4)
    drawn = one[1].scale.val
    assert np.unique([*drawn, *one[3].scale.val]).size == 12
    assert np.array_equal(drawn, two[1].scale.val)
    assert not np.array_equal(drawn, other[1].scale.val)
    assert (one[3].mean.val == 0.5).all() and one[1].calls.val == 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_states_are_shared_by_programs_and_copied_with_the_instance(copied: Any) -> None:
    x, y = data(5)
    net = Net(seed=3)
    train, serve = compiled("reference", net=net), compiled("reference", net=net)
    before = serve.forward(x)
    train.step(x, y)
    assert not np.array_equal(serve.forward(x), before)
    other = copied(net)
    mean = other[1].mean.val.copy()
    assert np.array_equal(mean, net[1].mean.val)
    train.step(x, y)
    assert np.array_equal(other[1].mean.val, mean) and other[1].calls.val == 1


def test_an_optimizer_begins_with_moments_of_its_own() -> None:
    x, y = data(5)
    trained, fresh = Net(seed=3), Net(seed=3)
    options: Any = {"loss": CrossEntropy, "batch": 5, "target": "reference"}
    # Parameters stay what they are, moments and the count of updates do not.
    noeira.compile(trained, optimizer=Adam(lr=0.0), **options).step(x, y)
    losses = []
    for net in (trained, fresh):
        program = noeira.compile(net, optimizer=SGD(lr=0.1, momentum=0.9), **options)
        losses.append([program.step(x, y) for _ in range(3)])
    assert losses[0] == losses[1]
    assert int(trained.store.arrays["adam.step"]) == 1
    assert int(trained.store.arrays["sgd.step"]) == 3
    with pytest.raises(noeira.NoeiraError, match=r"m of 0\.weight: .* have adam\.m and sgd\.m;"):
        _ = trained[0].weight.m


def drawn_from(program: noeira.Program, x: np.ndarray, y: np.ndarray, tick: int) -> float:
    """The loss of a network with two Noise layers at a tick."""
    numbers = sum(0.001 * program.seed + 0.01 * tick + 0.1 * stream for stream in range(2))
    given = x @ program.params["0.weight"] + program.params["0.bias"] + numbers
    return float(((given - y) ** 2).mean())


@pytest.mark.parametrize("target", TARGETS)
def test_random_numbers_follow_from_seed_tick_and_stream(target: str) -> None:
    x, y = data(10, "f64")[0], np.ones((10, 3))
    net = Sequential[Linear[4, 3], Noise, Repeat[1, Noise]]
    options: Any = {"loss": MSE, "optimizer": SGD(lr=0.0), "batch": 5, "dtype": "f64", "seed": 7}
    program = noeira.compile(net, target=target, **options)
    for tick in range(2):
        assert program.step(x[:5], y[:5]) == pytest.approx(drawn_from(program, x[:5], y[:5], tick))
    assert program.gradients(x[:5], y[:5]) == pytest.approx(drawn_from(program, x[:5], y[:5], 2))
    program.load(x, y, evaluation=(x, y), shuffle=False)
    expected = [drawn_from(program, x[i : i + 5], y[i : i + 5], t) for i, t in ((0, 3), (5, 4))]
    assert program.steps(2) == pytest.approx(np.mean(expected))
    assert program.evaluate()["loss"] == pytest.approx(
        float(((program.forward(x) - y) ** 2).mean())
    )
    assert program.store.arrays["tick"] == 5


@pytest.mark.parametrize("target", TARGETS)
def test_a_bad_step_is_looked_into_with_the_numbers_that_it_drew(target: str) -> None:
    x, y = data(20, "f64")[0], np.ones((20, 3))
    options: Any = {"loss": MSE, "optimizer": SGD(lr=1e-3), "batch": 5, "dtype": "f64"}
    program = noeira.compile(Sequential[Linear[4, 3], Brittle], target=target, **options)
    program.load(x, y, shuffle=False)
    with pytest.raises(noeira.NotFiniteError, match=r"step 3 .*%1\.divide, the divide of 1: Brit"):
        program.steps(4)
    # The next step draws other numbers.
    assert np.isfinite(program.steps(4))
