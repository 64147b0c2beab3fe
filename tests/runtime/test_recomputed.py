"""Networks with Checkpointed train bit by bit as those without, on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.job import job_of
from noeira.nn import (
    GELU,
    MSE,
    SGD,
    Adam,
    BatchNorm1D,
    BatchNorm2D,
    Checkpointed,
    ClipNorm,
    Conv2D,
    Dropout,
    Dropout2D,
    Fused,
    Linear,
    ReLU,
    Residual,
    Sequential,
    Tanh,
)
from noeira.report.explain import explain
from noeira.report.summary import summary

TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow]),
]
Wrap = Callable[[Any], Any]


def network(wrap: Wrap) -> Any:
    """Batch normalisation and dropout, fused and apart, in parts that are wrapped, and in parts of
    these.
    """
    fused = Fused[Linear[8, 8], BatchNorm1D[8], ReLU]
    drawn = Fused[Linear[8, 8], GELU, Dropout[0.5]]
    block = Sequential[
        fused, Dropout[0.25], Residual[wrap(Sequential[drawn, BatchNorm1D[8], Tanh])]
    ]
    return Sequential[Linear[6, 8], wrap(block), wrap(Sequential[drawn, Tanh]), Linear[8, 3]]


def trained(net: Any, target: str, **options: Any) -> list[bytes]:
    """What a few steps leave behind."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((24, n)).astype(np.float32) for n in (6, 3))
    given: Any = {"optimizer": Adam(lr=0.05), "batch": 8, **options}
    program = noeira.compile(net, loss=MSE, target=target, **given)
    found = [np.float64(program.gradients(x[:8], y[:8])).tobytes()]
    found += [np.asarray(array).tobytes() for array in program.store.arrays.values()]
    found += [np.float64(program.step(x[i : i + 8], y[i : i + 8])).tobytes() for i in (0, 8, 16)]
    program.load(x, y)
    found.append(np.float64(program.steps(4)).tobytes())
    arrays = (*program.store.arrays.values(), *program.own_states.values())
    return [*found, *(np.asarray(array).tobytes() for array in arrays)]


@pytest.mark.parametrize("target", TARGETS)
def test_no_bit_differs(target: str) -> None:
    options: Any = {"clip": ClipNorm(1.0), "ema": 0.9, "accumulate": 2}
    wanted = trained(network(lambda part: part), target, **options)
    assert trained(network(lambda part: Checkpointed[part]), target, **options) == wanted


def images(wrap: Wrap) -> Any:
    """Residual blocks of convolutions, with whole channels dropped."""
    conv = Conv2D.of(4, 4, 3, padding=1)
    half = Sequential[conv, BatchNorm2D[4], ReLU, Dropout2D[0.25]]
    block = wrap(Residual[Sequential[half, conv, BatchNorm2D[4], Dropout[0.1]]])
    return Sequential[Conv2D.of(2, 4, 3, padding=1), block, wrap(Sequential[ReLU, block])]


@pytest.mark.parametrize("target", TARGETS[:2])
def test_no_bit_differs_of_images(target: str) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((3, n, 5, 6)).astype(np.float32) for n in (2, 4))
    found = list[list[bytes]]()
    for net in (images(lambda part: part), images(lambda part: Checkpointed[part])):
        options: Any = {"optimizer": SGD(lr=0.1), "batch": 3, "input": (2, 5, 6)}
        program = noeira.compile(net, loss=MSE, target=target, **options)
        losses = [np.float64(program.step(x, y)).tobytes() for _ in range(3)]
        arrays = program.store.arrays.values()
        found.append([*losses, *(np.asarray(array).tobytes() for array in arrays)])
    assert found[0] == found[1]


def test_running_statistics_are_updated_once() -> None:
    nets = [network(wrap) for wrap in (lambda part: part, lambda part: Checkpointed[part])]
    for net in nets:
        graph = job_of(net, loss=MSE, optimizer=SGD(), batch=4).step().graph
        assert [u.state.name for u in graph.updates] == ["buffers", "tick"]
    plain, again = (trained(net, "reference") for net in nets)
    assert plain == again


@needs_compiler
def test_reports_say_what_is_computed_again() -> None:
    net = network(lambda part: Checkpointed[part])
    options: Any = {"loss": MSE, "optimizer": SGD(), "batch": 512, "target": "cpu"}
    found = explain(net, **options)
    again = [launch for launch in found.launches if launch.why.endswith(" again")]
    whys = {launch.why for launch in again}
    assert (
        "Fused[Linear[8, 8], BatchNorm1D[8], ReLU] again" in whys and "Dropout[0.25] again" in whys
    )
    assert all(name.endswith("^") for launch in again for name in (launch.path, *launch.results))
    whole = summary(net, **options)
    assert f", {len(again)} of them again" in str(whole)
    bare = summary(network(lambda part: part), **options)
    assert "again" not in str(bare) and whole.peak_bytes < bare.peak_bytes
