"""Programs compiled with `fold=True`: the same numbers, whatever changes parameters and buffers;
and folded weights are not made more often than they must be.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.errors import NoeiraError
from noeira.nn import (
    SGD,
    BatchNorm1D,
    BatchNorm2D,
    Conv2D,
    CrossEntropy,
    Flatten,
    Fused,
    Linear,
    ReLU,
    Sequential,
)
from noeira.training import Polyak

Net = Sequential[
    Fused[Conv2D.of(3, 8, 3, padding=1, bias=False), BatchNorm2D[8], ReLU],
    Conv2D[8, 4, 3],
    BatchNorm2D[4],
    Flatten,
    Linear[16, 5],
    BatchNorm1D[5],
]
OPTIONS: dict[str, Any] = {
    "input": (3, 4, 4),
    "batch": 4,
    "loss": CrossEntropy,
    "optimizer": SGD(lr=0.5),
    "ema": 0.5,
}
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((10, 3, 4, 4)), RANDOM.integers(0, 5, 10)
TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]


class Pair:
    """A program that folds and one that does not, over one instance."""

    def __init__(self, target: str, dtype: Any = "f64") -> None:
        self.folded = noeira.compile(Net, fold=True, target=target, dtype=dtype, **OPTIONS)
        self.plain = noeira.compile(self.folded.module, target=target, **OPTIONS)
        self.x = X.astype(np.float32 if dtype == "f32" else np.float64)
        self.most = 1e-5 if dtype == "f32" else 1e-12

    def agree(self) -> None:
        """Raises AssertionError unless both give the same for any number of rows."""
        one, other = (program.forward(self.x) for program in (self.folded, self.plain))
        assert np.abs(one - other).max() <= self.most * np.abs(other).max()

    def made(self, times: int) -> bool:
        """Whether folded weights are made so often in two calls."""
        entry, before, calls = self.folded.entry("forward.fold"), self.folded.prepared, []
        run = entry.run
        entry.run = lambda steps=1: calls.append(steps) or run(steps)  # type: ignore[method-assign]
        self.folded.forward(self.x)
        self.folded.forward(self.x)
        del entry.run
        assert before is self.folded.prepared
        return len(calls) == times


@pytest.mark.parametrize(
    "target", [*TARGETS[:2], pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]
)
@pytest.mark.parametrize("dtype", ["f32", pytest.param("f64", marks=pytest.mark.slow)])
def test_never_stale(target: str, dtype: Any, tmp_path: Path):
    pair = Pair(target, dtype)
    folded, plain, x = pair.folded, pair.plain, pair.x
    pair.agree()
    for program in (folded, plain):
        program.step(x[:4], Y[:4])
        pair.agree()
        program.load(x, Y)
        program.steps(3)
        pair.agree()
    with folded.averaged():
        pair.agree()
    pair.agree()
    folded.params["1.weight"] = 2 * folded.params["1.weight"]
    pair.agree()
    plain.tensors["2.running_var"][...] *= 3
    pair.agree()
    other = noeira.compile(Net, target=target, dtype=dtype, seed=7, **OPTIONS)
    folded.tensors.load(other.tensors)
    pair.agree()
    plain.save(tmp_path / "file")
    plain.step(x[:4], Y[:4])
    pair.agree()
    plain.restore(tmp_path / "file")
    pair.agree()
    Polyak(folded.module, copy.deepcopy(other.module), tau=0.5, target=target)()
    pair.agree()


@needs_compiler
def test_a_view_that_is_held_is_read_anew_at_each_call():
    pair = Pair("cpu")
    pair.agree()
    held = pair.folded.params["1.weight"]
    for factor in (2, 3):
        held *= factor
        pair.agree()
    assert pair.made(2)
    del held
    assert pair.made(1)
    assert pair.made(0)


@pytest.mark.parametrize("target", TARGETS)
def test_they_are_made_once_for_many_calls(target: str):
    pair = Pair(target)
    assert pair.made(1)
    assert pair.made(0)
    pair.folded.gradients(pair.x[:4], Y[:4])
    pair.plain.forward(pair.x)
    assert pair.folded.updates == 0 and pair.made(0)
    pair.plain.step(pair.x[:4], Y[:4])
    assert pair.made(1)


@needs_compiler
def test_in_the_midst_of_many_steps():
    pair = Pair("cpu")
    pair.folded.load(pair.x, Y)
    found = []

    def look(done: int) -> bool:
        pair.agree()
        found.append(done)
        return False

    pair.folded.loaded().steps(6, look)
    assert found
    pair.agree()


def test_run_prepares_too_and_the_entry_takes_no_arrays():
    pair = Pair("reference")
    pair.plain.step(pair.x[:4], Y[:4])
    (made,) = pair.folded.run("forward", pair.x).values()
    np.testing.assert_array_equal(made, pair.folded.forward(pair.x))
    with pytest.raises(NoeiraError, match=r"forward.fold takes no arrays"):
        pair.folded.run("forward.fold")


def test_files_and_checkpoints_have_no_folded_weights(tmp_path: Path):
    pair = Pair("reference")
    pair.agree()
    pair.folded.save(tmp_path / "file")
    again = noeira.compile(Net, target="reference", dtype="f64", **OPTIONS)
    again.restore(tmp_path / "file")
    np.testing.assert_array_equal(again.forward(pair.x), pair.plain.forward(pair.x))
