"""What stands before the first layer of a network of images: pixels as floats, random changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.datasets.split import standardised
from noeira.errors import CompositionError, DtypeError, NoeiraError
from noeira.ir.graph import Value
from noeira.nn import (
    MSE,
    SGD,
    CrossEntropy,
    Linear,
    Module,
    RandomCropFlip,
    RandomFlip,
    Scope,
    Sequential,
    Standardize,
)

TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


class Flat(Module):
    """Images as rows."""

    signature = "(C, H, W) -> (C*H*W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, *sample = x.type.shape
        return scope.emit("reshape", x, shape=(batch, int(np.prod(sample))))


def pixels(*shape: int) -> np.ndarray:
    """Images of bytes."""
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_types_print_as_they_are_written():
    assert repr(Standardize[MEAN, STD]) == f"Standardize[{MEAN}, {STD}]"
    assert Standardize[0.286, 0.353] is Standardize.of(mean=(0.286,), std=[0.353])
    assert repr(RandomCropFlip.of(4, flip=0.25)) == "RandomCropFlip.of(4, flip=0.25)"
    net = Sequential[Standardize[MEAN, STD], RandomCropFlip[4], RandomFlip]
    assert net.gives((3, 32, 32)) == (3, 32, 32)


MISTAKES = [
    ("Standardize[(0.5, 0.5), 0.2]", "mean has 2 and std 1 numbers; write one of each for every"),
    ("Standardize[0.5, 0.0]", "std must be a tuple of numbers, such as (0.5, 0.25), each greater"),
    ("Standardize[(), ()]", "mean must be a tuple of numbers, such as (0.5, 0.25), not ()"),
    ("Standardize['x', 0.2]", "mean must be a tuple of numbers, such as (0.5, 0.25), not 'x'"),
    ("Standardize[0.5, 0.2].gives((3, 8, 8))", "(1, H, W: u8)"),
    ("RandomCropFlip[0]", "RandomCropFlip[0] crops nothing: for flips alone write RandomFlip"),
    ("RandomCropFlip[4, 2.0]", "flip must be a number from 0 to 1, not 2.0"),
    ("RandomFlip.of(flip=0.0)", "RandomFlip.of(flip=0.0) does nothing: leave it out"),
    ("Sequential[RandomFlip, Standardize[0.5, 0.2]]", "They differ in what their elements are."),
]


@pytest.mark.parametrize(("written", "message"), MISTAKES)
def test_mistakes(written: str, message: str):
    with pytest.raises((CompositionError, NoeiraError), match=re.escape(message)):
        eval(written)


@pytest.mark.parametrize("target", TARGETS)
def test_standardised_images_are_those_of_the_data_sets(target: str):
    x = pixels(5, 3, 7, 9)
    program = noeira.compile(Standardize[MEAN, STD], batch=5, input=(3, 7, 9), target=target)
    np.testing.assert_array_equal(program.forward(x), standardised(x, MEAN, STD))
    with pytest.raises(DtypeError, match="it must be integers"):
        program.forward(x.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_evaluation_changes_no_image(target: str):
    x = pixels(4, 1, 8, 8).astype(np.float32)
    net = Sequential[RandomCropFlip[2], RandomFlip]
    program = noeira.compile(net, batch=4, input=(1, 8, 8), target=target)
    np.testing.assert_array_equal(program.forward(x), x)


def gradients(target: str, net: Any, x: np.ndarray, seed: int, steps: int) -> list[np.ndarray]:
    """What the weights of a last layer of whole numbers are given by some steps: sums of pixels,
    which no target rounds.
    """
    options: dict[str, Any] = {"loss": MSE, "optimizer": SGD(lr=0.0), "batch": len(x)}
    program = noeira.compile(net, input=x.shape[1:], target=target, seed=seed, **options)
    program.params["3.weight"][...] = 0
    program.params["3.bias"][...] = 0
    weight, found = program.module.parameter("3.weight"), list[np.ndarray]()
    for _ in range(steps):
        program.gradients(x, np.ones((len(x), 1), np.float32))
        found.append(weight.grd.copy())
    return found


@needs_compiler
@needs_cxx
def test_all_targets_draw_the_same():
    x = pixels(8, 3, 9, 8)
    exact = Standardize[(0.0,) * 3, (1 / 255,) * 3]
    net = Sequential[exact, RandomCropFlip[3], Flat, Linear[3 * 9 * 8, 1]]
    made = {seed: gradients("reference", net, x, seed, 3) for seed in (1, 2)}
    for target in ("cpu", "cuda-cpu"):
        np.testing.assert_array_equal(gradients(target, net, x, 1, 3), made[1])
    flat = [one.tobytes() for several in made.values() for one in several]
    assert len(set(flat)) == 6  # each step, and each seed, has others


@pytest.mark.parametrize("target", TARGETS)
def test_an_input_may_have_a_gradient(target: str):
    """What a layer before it makes: of what was cropped away it is 0."""
    net = Sequential[Linear[5, 4], RandomCropFlip[1], Flat, Linear[2 * 3 * 4, 2]]
    program = noeira.compile(net, loss=MSE, batch=3, input=(2, 3, 5), dtype="f64", target=target)
    x = np.random.default_rng(0).standard_normal((3, 2, 3, 5))
    y, weight = np.ones((3, 2)), program.params["0.weight"]
    loss = program.gradients(x, y)
    slope = program.module.parameter("0.weight").grd[2, 1]
    # The second call of a program would draw others, so another one is asked.
    again = noeira.compile(net, loss=MSE, batch=3, input=(2, 3, 5), dtype="f64", target=target)
    again.params["0.weight"][...] = weight
    again.params["0.weight"][2, 1] += 1e-6
    assert abs((again.gradients(x, y) - loss) / 1e-6 - slope) < 1e-4


@needs_compiler
def test_a_resumed_training_draws_the_same(tmp_path: Path):
    x, y = pixels(50, 3, 8, 8), np.arange(50) % 4
    net = Sequential[Standardize[MEAN, STD], RandomCropFlip[2], Flat, Linear[192, 4]]
    options: dict[str, Any] = {"loss": CrossEntropy, "optimizer": SGD(lr=0.01), "batch": 16}
    whole, part, resumed = (noeira.Trainer(net, **options) for _ in range(3))
    said: dict[str, Any] = {"progress": False}
    whole.fit((x, y), epochs=3, **said)
    part.fit((x, y), epochs=1, folder=tmp_path / "run", **said)
    resumed.fit((x, y), epochs=3, folder=tmp_path / "run", resume=True, **said)
    weights = (one.program.params["3.weight"] for one in (whole, resumed))
    np.testing.assert_array_equal(next(weights), next(weights))


@needs_compiler
def test_images_stay_as_bytes_in_memory():
    net = Sequential[Standardize[MEAN, STD], RandomCropFlip[2], Flat, Linear[192, 4]]
    options: dict[str, Any] = {"loss": CrossEntropy, "optimizer": SGD(lr=0.01), "batch": 4}
    program = noeira.compile(net, input=(3, 8, 8), **options)
    program.load(pixels(10, 3, 8, 8), np.arange(10) % 4)
    program.steps(3)
    (data,) = (i.value for i in program.entry("steps").graph.inputs if i.value.name == "data.x")
    assert str(data.type) == "u8[10, 3, 8, 8]"
