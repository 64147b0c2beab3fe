"""Random numbers in images whose channels lie last: no reorder for them, behind convolutions and
pools in one kernel, and the same bits in whatever order images lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from pass_jobs import run

import noeira
from noeira import job
from noeira.ir.graph import ComputeGraph
from noeira.job import job_of
from noeira.nn import (
    SGD,
    AvgPool2D,
    BatchNorm2D,
    Conv2D,
    CrossEntropy,
    Dropout,
    Flatten,
    Fused,
    Linear,
    MaxPool2D,
    Module,
    ReLU,
    Sequential,
)
from noeira.passes.order import Order
from noeira.passes.vjp import Vjp

SIZES: dict[str, Any] = {"input": (3, 8, 6), "batch": 3, "loss": CrossEntropy}
Apart = Sequential[
    Conv2D.of(3, 20, 3, padding=1),
    ReLU,
    Dropout[0.3],
    MaxPool2D[2],
    Dropout[0.1],
    Conv2D.of(20, 5, 3, padding=1),
    BatchNorm2D[5],
    Dropout[0.5],
    AvgPool2D[1],
    Dropout[0.2],
    Flatten,
    Linear[60, 4],
]
Together = Sequential[
    Fused[Conv2D.of(3, 20, 3, padding=1), ReLU, Dropout[0.3]],
    Fused[MaxPool2D[2], Dropout[0.1]],
    Fused[Conv2D.of(20, 5, 3, padding=1), BatchNorm2D[5], Dropout[0.5]],
    Fused[AvgPool2D[1], Dropout[0.2]],
    Flatten,
    Linear[60, 4],
]


def gradients(network: type[Module], target: str, dtype: Any = "f32") -> list[np.ndarray]:
    """Two losses and gradients, of other random numbers each."""
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 3, 8, 6)).astype(np.float32 if dtype == "f32" else np.float64)
    program = noeira.compile(network, **SIZES, dtype=dtype, target=target, seed=4)
    found = []
    for _ in range(2):
        found.append(np.array(program.gradients(x, np.array([0, 1, 2]))))
        grads = program.store.current("gradients")
        members = sorted(program.store.layout.members, key=lambda one: one.size)
        found += [grads[one.offset : one.end].copy() for one in members]
    return found


def reorders(graph: ComputeGraph) -> int:
    """How often an image or a weight is reordered."""
    return sum(node.op.name == "reorder" for node in graph.nodes)


def test_dropping_takes_no_reorder():
    dump = job_of(Apart, **SIZES, optimizer=SGD).step()
    # Of x, before the matrix product, and of what comes back from it.
    assert reorders(run(dump.graph, Vjp(), Order())) == 3


@needs_compiler
@pytest.mark.parametrize("target", ["reference", "cpu", pytest.param("cuda-cpu", marks=needs_cxx)])
def test_the_same_bits_in_another_order(target: str, monkeypatch: pytest.MonkeyPatch):
    last = gradients(Apart, target)
    assert not np.allclose(last[0], last[len(last) // 2])
    monkeypatch.setattr(job, "Order", lambda: Order(channels_last=False))
    for one, other in zip(gradients(Apart, target), last, strict=True):
        assert one.tobytes() == other.tobytes()


@needs_compiler
@needs_cxx
def test_the_same_on_every_target_in_one_kernel_and_apart():
    wanted = gradients(Apart, "reference", "f64")
    for target in ("reference", "cpu", "cuda-cpu"):
        for got, want in zip(gradients(Together, target, "f64"), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
