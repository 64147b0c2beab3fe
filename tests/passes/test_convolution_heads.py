"""Convolutions in fused types behind a norm and an activation: what is one kernel, what is stored,
and the bits of training.
"""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira.errors import FusionError
from noeira.ir.body import phases_of
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import Value
from noeira.ir.types import TensorType
from noeira.nn import (
    SGD,
    BatchNorm2D,
    Checkpointed,
    Conv2D,
    CrossEntropy,
    Fused,
    GlobalAvgPool2D,
    Module,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
)


def parts(channels: int, filters: int, **options: int) -> tuple[type[Module], ...]:
    """A norm, an activation of which 0 is not 0, a convolution."""
    convolution = Conv2D.of(channels, filters, 3, padding=1, **options)
    return BatchNorm2D[channels], Sigmoid, convolution


def network(whole: type[Module]) -> type[Module]:
    """A network of such parts, each of them made one by a type, the first of what is given."""

    def unit(channels: int, filters: int, **options: int) -> type[Module]:
        return whole[parts(channels, filters, **options)]

    class Net(
        Sequential[
            unit(3, 10),
            Residual[Sequential[unit(10, 10), unit(10, 10, groups=5)]],
            Checkpointed[unit(10, 10, groups=10)],
            unit(10, 12, stride=2),
            whole[ReLU, Conv2D.of(12, 5, 1)],
            GlobalAvgPool2D,
        ]
    ):
        """Behind nothing, each other, a sum."""

    return Net


@needs_compiler
def test_training_and_evaluation_give_the_bits_of_the_parts() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 3, 7, 9)).astype("f4")
    y = np.array([0, 4, 2, 1], "i4")
    found = list[list[bytes]]()
    for whole in (Fused, Sequential):
        program = noeira.compile(
            network(whole), loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=4, input=(3, 7, 9)
        )
        losses = [np.float64(program.step(x, y)).tobytes() for _ in range(3)]
        tensors = [program.params[name].tobytes() for name in program.params]
        found.append([*losses, *tensors, program.forward(x).tobytes()])
    assert found[0] == found[1]


def test_evaluation_stores_nothing_before_a_convolution() -> None:
    launches = noeira.explain(network(Fused), batch=4, input=(3, 7, 9), entry="forward").launches
    convolutions = [launch for launch in launches if "convolution" in launch.op]
    assert len(convolutions) == 6
    assert all("relu" in launch.op or "sigmoid" in launch.op for launch in convolutions)


def images(builder: Builder) -> tuple[Value, Value]:
    """An image and a weight."""
    x = builder.input("x", TensorType("f32", (2, 5, 5, 8)))
    return x, builder.input("w", TensorType("f32", (3, 3, 8, 4)))


@pytest.mark.parametrize("stored", [False, True])
def test_what_others_read_is_a_phase_before(stored: bool) -> None:
    builder = Builder("heads")
    x, w = images(builder)
    active = builder.emit("relu", x)
    y = builder.emit("convolution", active, w, channels_last=True)
    outputs = {y.name, active.name} if stored else {y.name}
    bodies = phases_of(close(tuple(builder.nodes), outputs, builder.nodes[0].origin)).bodies
    assert [body.stem for body in bodies] == ["map"] * stored + ["convolution"]


def test_two_norms_are_two_kernels() -> None:
    with pytest.raises(FusionError, match="convolution stands between ops"):
        Fused[(*parts(8, 16), BatchNorm2D[16], ReLU)]
    assert Fused[ReLU, Conv2D.of(8, 16, 3), BatchNorm2D[16], ReLU]
