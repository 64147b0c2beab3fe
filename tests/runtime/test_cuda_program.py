"""Whole programs on CUDA that the CPU executes: the same types, graphs and numbers as on C."""

from __future__ import annotations

import re

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.datasets import MNIST
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    AdamW,
    CrossEntropy,
    Deterministic,
    Linear,
    LinearGELU,
    LinearReLU,
    Residual,
    Sequential,
    Tanh,
)
from noeira.stages import stages_of

pytestmark = needs_cxx

MLP = Sequential[LinearReLU[784, 256], Linear[256, 10]]
SMALL = Sequential[LinearReLU[12, 17], Linear[17, 5]]


def batch(rows: int, columns: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A batch of random samples and classes."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    return x, random.integers(0, classes, rows).astype(np.int32)


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Real digits: the first of MNIST's, or of those that are shipped."""
    train = MNIST().train
    return np.ascontiguousarray(train.x[:rows]), np.ascontiguousarray(train.y[:rows])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.9), Adam(), AdamW(weight_decay=0.1)])
def test_steps_follow_the_reference(dtype: str, optimizer: noeira.nn.Optimizer) -> None:
    losses = {}
    for target in ("cuda-cpu", "reference"):
        x, y = batch(7, 12, 5)
        x = x.astype(np.float64 if dtype == "f64" else np.float32)
        program = noeira.compile(
            SMALL,
            loss=CrossEntropy,
            optimizer=optimizer,
            batch=7,
            dtype=dtype,
            target=target,
            seed=3,
        )
        losses[target] = [program.step(x, y) for _ in range(6)], program.params["0.weight"].copy()
    tolerance = 1e-5 if dtype == "f32" else 1e-12
    for made, expected in zip(losses["cuda-cpu"], losses["reference"], strict=True):
        np.testing.assert_allclose(made, expected, rtol=tolerance, atol=tolerance)


@needs_compiler
def test_steps_of_the_mlp_follow_those_of_c() -> None:
    x, y = data(5000)
    losses = {}
    for target in ("cpu", "cuda-cpu"):
        program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(), batch=100, target=target)
        program.load(x, y)
        losses[target] = [program.steps() for _ in range(50)]
    assert np.abs(np.subtract(losses["cpu"], losses["cuda-cpu"])).max() < 1e-4
    assert losses["cpu"][-1] < 0.7 < losses["cpu"][0]


@pytest.mark.slow
@needs_compiler
def test_accuracy_after_200_steps_is_that_of_c() -> None:
    mnist, accuracy = MNIST(), {}
    test = mnist.test.x[:2000], mnist.test.y[:2000]
    for target in ("cpu", "cuda-cpu"):
        program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(), batch=100, target=target)
        program.load(mnist.train.x, mnist.train.y, evaluation=test)
        program.steps(200)
        accuracy[target] = program.evaluate()["accuracy"]
    assert accuracy["cpu"] > 0.8
    assert abs(accuracy["cpu"] - accuracy["cuda-cpu"]) < 0.01


def test_forward_of_any_number_of_rows() -> None:
    program = noeira.compile(SMALL, batch=8, target="cuda-cpu", init=Deterministic)
    expected = noeira.compile(SMALL, batch=8, target="reference", init=Deterministic)
    for rows in (1, 7, 8, 9, 31):
        x, _ = batch(rows, 12, 5, rows)
        np.testing.assert_allclose(program.forward(x), expected.forward(x), rtol=1e-5, atol=1e-6)


def test_gradients_and_residuals() -> None:
    net = Sequential[Linear[6, 9], Residual[Sequential[LinearGELU[9, 9], Linear[9, 9]]], Tanh]
    x, _ = batch(5, 6, 2)
    target = np.tanh(batch(5, 9, 2, 1)[0])
    found = {}
    for kind in ("cuda-cpu", "reference"):
        program = noeira.compile(net, loss=MSE, batch=5, target=kind, seed=1)
        loss = program.gradients(x, target)
        found[kind] = loss, program.store.view("grd", "0.weight").copy()
    np.testing.assert_allclose(found["cuda-cpu"][0], found["reference"][0], rtol=1e-5)
    np.testing.assert_allclose(found["cuda-cpu"][1], found["reference"][1], rtol=1e-4, atol=1e-6)


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    x, y = batch(8, 12, 5)
    x[3, 4] = np.inf
    for target in ("cuda-cpu", "cpu"):
        program = noeira.compile(SMALL, loss=CrossEntropy, optimizer=Adam(), batch=4, target=target)
        before = program.params["0.weight"].copy()
        program.load(x, y, shuffle=False)
        with pytest.raises(noeira.NotFiniteError):
            program.steps(5)
        kept = program.params["0.weight"]
        assert np.array_equal(before, kept)
        assert int(program.own_states["cursor"]) == 0


def test_views_that_a_user_keeps_are_current() -> None:
    x, y = batch(7, 12, 5)
    program = noeira.compile(
        SMALL, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=7, target="cuda-cpu"
    )
    kept = program.params["0.weight"]
    first = kept.copy()
    program.step(x, y)
    assert not np.array_equal(kept, first)
    kept[...] = 0.5
    program.lr = 0.0
    program.step(x, y)
    assert (kept == 0.5).all()
    assert (program.params["0.weight"] == 0.5).all()


def test_programs_of_several_targets_share_an_instance() -> None:
    net = SMALL(seed=5)
    x, y = batch(7, 12, 5)
    device = noeira.compile(
        net, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=7, target="cuda-cpu"
    )
    host = noeira.compile(
        net, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=7, target="reference"
    )
    twin = noeira.compile(
        SMALL, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=7, target="reference", seed=5
    )
    for number in range(4):
        loss = (device if number % 2 else host).step(x, y)
        np.testing.assert_allclose(loss, twin.step(x, y), rtol=1e-5)


def test_both_targets_have_one_graph() -> None:
    for kind in ("step", "gradients", "forward"):
        made = [stages_of(MLP, target=target, entry=kind).plan for target in ("cpu", "cuda")]
        assert str(made[0].graph) == str(made[1].graph)
        # Apart from what `choose` decides: its stages, their workspace, so the arena.
        places = [
            [line for line in str(plan).splitlines() if re.match(r"  place .*: (?!arena)", line)]
            for plan in made
        ]
        assert places[0] == places[1]


def test_training_is_the_same_every_time() -> None:
    x, y = batch(40, 12, 5)
    states = set()
    for _ in range(2):
        program = noeira.compile(
            SMALL, loss=CrossEntropy, optimizer=Adam(), batch=7, target="cuda-cpu"
        )
        program.load(x, y)
        program.steps(12)
        states.add(program.params["0.weight"].tobytes())
    assert len(states) == 1


def test_data_order_is_that_of_c() -> None:
    x, y = batch(40, 12, 5)
    losses = []
    for target in ("cuda-cpu", "reference"):
        program = noeira.compile(SMALL, loss=CrossEntropy, optimizer=Adam(), batch=7, target=target)
        program.load(x, y)
        losses.append([program.steps() for _ in range(14)])
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(noeira.OptionError, match="there are cpu, cuda, cuda-cpu, reference"):
        noeira.compile(MLP, target="gpu")
