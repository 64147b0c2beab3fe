"""Dropout: what is left, which numbers decide it, and that the gradient has the same mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from stepped import TARGETS
from sweep import Case, sample_case
from sweep_units import built

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import ComputeGraph
from noeira.ir.interpret import interpret
from noeira.ir.op import op
from noeira.ir.random import uniform24
from noeira.ir.samples import Draw, Sample, f32
from noeira.ir.states import COUNTER
from noeira.job import job_of
from noeira.nn import (
    MSE,
    SGD,
    AlphaDropout,
    Dropout,
    Dropout1D,
    Dropout2D,
    Dropout3D,
    Fused,
    Linear,
    ReLU,
    Repeat,
    Sequential,
)
from noeira.passes.pipeline import resume

SEED, TICK = 7, 5
IMAGES = {Dropout1D: (9,), Dropout2D: (3, 4), Dropout3D: (2, 3, 2)}


def traced(net: Any, x: np.ndarray, dtype: Any = "f32") -> ComputeGraph:
    """A network in training."""
    return noeira.trace(net, batch=len(x), input=x.shape[1:], dtype=dtype)


def left(net: Any, x: np.ndarray, dtype: Any = "f32", tick: int = TICK) -> np.ndarray:
    """What a network without parameters makes of its input in training, by the reference."""
    graph = traced(net, x, dtype)
    keys = {"seed": np.asarray(SEED), "tick": np.asarray(tick)}
    given = {s.value.name: keys[s.value.name] for s in graph.states if s.value.name in keys}
    given |= {s.value.name: np.zeros(s.value.type.shape) for s in graph.states if s.members}
    return interpret(graph, {"x": x, **given})[graph.outputs[0].name]


def drawn(shape: tuple[int, ...], stream: int = 0, tick: int = TICK) -> np.ndarray:
    """The random numbers of a layer."""
    return uniform24(SEED, stream, int(np.prod(shape)), tick).reshape(shape)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_elements_are_dropped_by_themselves(rate: float) -> None:
    x = np.random.default_rng(0).standard_normal((64, 33)).astype(np.float32)
    wanted = np.where(drawn(x.shape) >= rate, x * np.float32(1 / (1 - rate)), 0)
    np.testing.assert_array_equal(left(Dropout[rate], x), wanted)
    assert abs((wanted == 0).mean() - rate) < 0.03
    assert not np.array_equal(left(Dropout[rate], x, tick=TICK + 1), wanted)


def test_the_mask_is_the_same_in_every_dtype() -> None:
    """Of rates between two multiples of 2⁻²⁴, and on one, too."""
    x = np.ones((512, 40))
    for rate in (0.1, 0.7, 0.3 + 2.0**-26, 0.5, float(drawn((40,))[3])):
        single = left(Dropout[rate], x.astype(np.float32))
        double = left(Dropout[rate], x, "f64")
        np.testing.assert_array_equal(single == 0, double == 0)


def test_of_no_rate_nothing_is_left_and_at_one_zeros() -> None:
    x = np.array([[1.0, np.inf, np.nan, -2.0]], np.float32)
    assert [n.op.name for n in traced(Dropout[0.0], x).nodes] == ["copy"]
    np.testing.assert_array_equal(left(Dropout[1], x), np.zeros_like(x))
    for layer in (Dropout[0.5], AlphaDropout[0.5], Dropout[1.0]):
        graph = noeira.trace(layer, phase="eval", input=(4,))
        assert [n.op.name for n in graph.nodes] == ["copy"] and not graph.states
    assert traced(Fused[Dropout[0.0], ReLU], x).nodes[0].op.name == "relu"
    # What is left of it in evaluation is nothing, and that is no kernel.
    program = noeira.compile(Fused[Dropout[0.1], Dropout[0.2]], input=(4,), target="reference")
    np.testing.assert_array_equal(program.forward(x), x)


@pytest.mark.parametrize("layer", IMAGES)
def test_channels_are_dropped_as_a_whole(layer: Any) -> None:
    places = IMAGES[layer]
    x = np.random.default_rng(0).standard_normal((16, 8, *places)).astype(np.float32)
    kept = drawn((16, 8)) >= 0.25
    mask = np.where(kept, np.float32(1 / 0.75), 0).reshape(16, 8, *(1 for _ in places))
    np.testing.assert_array_equal(left(layer[0.25], x), x * mask)
    np.testing.assert_array_equal(left(Fused[ReLU, layer[0.25]], x), np.maximum(x, 0) * mask)
    assert 0.1 < 1 - kept.mean() < 0.4


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(0).standard_normal((512, 128)).astype(np.float32)
    y = left(AlphaDropout[0.2], x)
    assert abs(y.mean()) < 0.01 and abs(y.std() - 1) < 0.01
    # SELU approaches -1.758… on the left; scaled and shifted as everything is.
    c = -1.0507009873554805 * 1.6732632423543772
    a = ((1 - 0.2) * (1 + 0.2 * c * c)) ** -0.5
    kept = drawn(x.shape) >= 0.2
    np.testing.assert_allclose(y, a * np.where(kept, x, c) - a * 0.2 * c, rtol=1e-5, atol=1e-6)
    assert not left(AlphaDropout[1.0], x).any()


def test_every_copy_draws_its_own() -> None:
    x = np.ones((8, 64), np.float32)
    both = left(Repeat[2, Dropout[0.5]], x)
    wanted = (drawn(x.shape) >= 0.5) * (drawn(x.shape, 1) >= 0.5) * 4.0
    np.testing.assert_array_equal(both, wanted)


def step_of(net: Any, **options: Any) -> ComputeGraph:
    """A training step after its passes."""
    dump = job_of(net, loss=MSE, optimizer=SGD(lr=1.0), batch=6, **options).step()
    return resume(dump)(dump).graph


def test_the_backward_pass_draws_the_mask_again() -> None:
    graph = step_of(Sequential[Linear[4, 5], Dropout[0.5]])
    (slope,) = (n for n in graph.nodes if n.op.name == "dropout.d0")
    assert [v.name for v in slope.inputs[1:]] == ["seed", "tick", "1.stream"]
    # One kernel with what is around it, and nothing of the mask is stored.
    fused = step_of(Fused[Linear[4, 5], ReLU, Dropout[0.5]])
    (kernel,) = (n for n in fused.nodes if n.body and n.origin.by == "trace")
    assert [part.op.name for part in kernel.body if part.launches] == ["linear", "relu", "dropout"]
    assert {v.name for v in kernel.outputs} == {"relu", "dropout"}


@pytest.mark.parametrize("target", ["reference", pytest.param("cpu", marks=needs_compiler)])
def test_gradients_are_those_of_the_mask(target: str) -> None:
    random = np.random.default_rng(0)
    x, t = (random.standard_normal((6, n)).astype(np.float32) for n in (4, 5))
    nets = Sequential[Linear[4, 5], ReLU, Dropout[0.5]], Fused[Linear[4, 5], ReLU, Dropout[0.5]]
    for net in nets:
        program = noeira.compile(net, loss=MSE, batch=6, target=target, seed=SEED)
        w, b = program.params.values()
        scale = (drawn(t.shape, tick=0) >= 0.5) * 2.0
        h = x.astype(np.float64) @ w + b
        d_y = 2 * (np.maximum(h, 0) * scale - t) / t.size
        program.gradients(x, t)
        found = program.store.view("grd", next(iter(program.params)))
        np.testing.assert_allclose(found, x.T @ (d_y * scale * (h > 0)), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout[1.5], "Dropout[1.5]: p must be a number from 0 to 1, not 1.5"),
        (lambda: Dropout[-0.1], "Dropout[-0.1]: p must be a number from 0 to 1, not -0.1"),
        (lambda: Dropout["a"], "Dropout['a']: p must be a number from 0 to 1, not 'a'"),
        (lambda: Sequential[Dropout, ReLU], "Dropout needs its parameters: write Dropout[p]"),
        (lambda: Dropout[64, 0.5], "takes samples of any size; write Dropout[0.5]"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(CompositionError) as caught:
        make()
    assert message in str(caught.value)


def cases() -> dict[str, Case]:
    """Each op at a size that no vector divides."""
    keys = (Draw(COUNTER, "index", 1000),) * 3
    x = Draw(f32(7, 37))
    samples = {
        "dropout": Sample((x, *keys), {"rate": 0.3}),
        "dropout_mask": Sample(keys, {"rate": 0.3, "shape": (7, 5, 1, 1)}),
    }
    return {name: sample_case(op(name), sample) for name, sample in samples.items()}


@pytest.mark.parametrize(
    "target",
    [pytest.param("cpu", marks=needs_compiler), pytest.param("cuda-cpu", marks=needs_cxx)],
)
def test_targets_have_the_same_bits(target: str) -> None:
    found = cases()
    variant = TARGETS[target]
    assert variant is not None
    library = built([*found.values()], variant)
    for case in found.values():
        given, node = case.arrays(), case.node
        wanted = node.op.reference(node.attrs, *given)
        for one, other in zip(library.run(case, given), wanted, strict=True):
            assert one.tobytes() == other.tobytes()
