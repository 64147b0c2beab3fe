"""Second derivatives through every layer: critics at random, against differences of the loss."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from critics import Softmax, differences, gradients_of
from made_modules import module

import noeira
from noeira.nn import (
    ELU,
    GELU,
    MSE,
    Clamp,
    Fused,
    GELUTanh,
    GradientPenalty,
    InputGradient,
    LeakyReLU,
    Linear,
    Losses,
    Mish,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SiLU,
    Softplus,
    Symexp,
    Symlog,
    Tanh,
    TwoHotDecode,
    Wasserstein,
)

ACTIVATIONS = [
    *(ReLU, Tanh, Sigmoid, SiLU, GELU, GELUTanh, Mish, Softplus, Symlog, Symexp, ELU, LeakyReLU),
    *(ELU.of(alpha=0.4), Scale.of(multiplier=-0.7), Clamp.of(low=-0.6, high=0.9)),
]
PENALTIES = [
    GradientPenalty.of(coefficient=1.0),
    GradientPenalty.of(target=0.0, coefficient=0.5),
    GradientPenalty.of(target=0.3, coefficient=2.0),
]
# The number that bins stand for, as a row of one.
Column = module("(*) -> (*, 1)", lambda s, x: s.emit("reshape", x, shape=(*x.type.shape, 1)))


def same_width(random: Random, width: int, depth: int) -> Any:
    """A layer that gives what it takes."""
    layer, given = part(random, width, depth)
    return layer if given == width else Sequential[layer, Linear[given, width]]


def part(random: Random, width: int, depth: int) -> tuple[Any, int]:
    """A layer for rows of this width, and the width of what it gives."""
    activation, other = random.choice(ACTIVATIONS), random.randrange(2, 6)
    kind = random.randrange(8 if depth else 4)
    if kind == 0:
        return random.choice([*ACTIVATIONS, Softmax]), width
    if kind == 1:
        return Linear.of(width, other, bias=random.random() < 0.7), other
    if kind == 2:
        return Fused[Linear[width, other], activation], other
    if kind == 3:
        return Fused[Residual[activation], random.choice([Tanh, Softmax])], width
    if kind == 4:
        return Residual[same_width(random, width, depth - 1)], width
    if kind == 5:
        return Repeat[2, same_width(random, width, depth - 1)], width
    if kind == 6:
        branches = [part(random, width, depth - 1) for _ in range(2)]
        return Parallel[tuple(layer for layer, _ in branches)], sum(w for _, w in branches)
    first, between = part(random, width, depth - 1)
    second, last = part(random, between, depth - 1)
    return Sequential[first, second], last


def critic(random: Random, width: int) -> Any:
    """Layers, then one number."""
    layers, between = list[Any](), width
    for _ in range(random.randrange(1, 4)):
        layer, between = part(random, between, 2)
        layers.append(layer)
    if between > 1 and random.random() < 0.3:
        decode = TwoHotDecode.of(low=-1.0, high=1.5, symlog=random.random() < 0.5)
        return Sequential[*layers, decode, Column]
    return Sequential[*layers, Linear[between, 1]]


def check(seed: int, target: str) -> None:
    """The gradient of a random critic, and those of its parameters under a penalty on it."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    width, rows = random.randrange(1, 5), random.randrange(1, 6)
    net = critic(random, width)
    loss = Losses[random.choice([Wasserstein, MSE]), random.choice(PENALTIES)]
    options: dict[str, Any] = {"batch": rows, "input": (width,), "target": target, "dtype": "f64"}
    program = noeira.compile(InputGradient[net], loss=loss, **options)
    for value in program.params.values():
        value[...] = numbers.standard_normal(value.shape) / np.sqrt(value.shape[0])
    x, y = numbers.standard_normal((rows, width)), numbers.standard_normal((rows, 1))
    slopes = program.forward(x)[1]
    for column, step in enumerate(1e-5 * np.eye(width)):
        wanted = (program.forward(x + step)[0] - program.forward(x - step)[0])[:, 0] / 2e-5
        assert abs(slopes[:, column] - wanted).max() <= 1e-6 * (1 + abs(wanted).max()), net
    if not program.params:
        return
    program.gradients(x, y)
    found = gradients_of(program)
    expected = differences(program, lambda: program.gradients(x, y))
    scale = 1 + max((abs(value).max() for value in expected.values()), default=0)
    for name, value in expected.items():
        assert abs(found[name] - value).max() <= 1e-6 * scale, f"{name} of {net}"


@pytest.mark.parametrize("seed", range(12))
def test_random_critics(seed: int) -> None:
    check(seed, "reference")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-cpu"])
def test_many_random_critics(target: str) -> None:
    for seed in range(100, 160 if target == "reference" else 108):
        check(seed, target)
