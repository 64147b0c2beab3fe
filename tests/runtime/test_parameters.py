"""Parameters are loaded all or not at all; what programs, trainers and results print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from stateful_layers import Net as Normed

import noeira
from noeira.errors import CheckpointError, NoeiraError
from noeira.ir.graph import Value
from noeira.ir.random import Distribution
from noeira.nn import (
    SGD,
    Buffer,
    CrossEntropy,
    Linear,
    LinearReLU,
    Module,
    Param,
    Scope,
    Sequential,
    size,
)
from noeira.training.result import Epoch, Evaluation, TrainResult


class Net(Sequential[LinearReLU[5, 4], Linear[4, 3]]):
    """Two layers."""


def test_parameters_are_loaded_all_or_not_at_all(tmp_path: Path):
    first, second = (noeira.compile(Net, seed=seed) for seed in (1, 2))
    first.tensors.save(tmp_path / "net.safetensors")
    second.tensors.load(tmp_path / "net.safetensors")
    values = dict(first.params)
    assert all(np.array_equal(second.params[name], array) for name, array in values.items())
    name, *others = values
    wrong: list[tuple[dict[str, Any], str]] = [
        ({n: values[n] + 1 for n in others}, f"it lacks {name}$"),
        ({n: a + 1 for n, a in values.items()} | {"x": 1}, "it has x, which is none of them"),
        ({n: a + 1 for n, a in values.items()} | {name: np.zeros(77)}, r"as float64\[77\], not f"),
        ({n: a.astype("i4") + 1 for n, a in values.items()}, "as int32.* 3 more differences$"),
        ({n: a.astype("f8") * 1e300 for n, a in values.items()}, "float32 has no such number"),
        ({}, f"it lacks {name}, and there are 3 more differences$"),
    ]
    for given, message in wrong:
        with pytest.raises(CheckpointError, match=message):
            second.tensors.load(given)
        assert all(np.array_equal(second.params[n], a) for n, a in values.items())


def test_a_checkpoint_has_the_buffers(tmp_path: Path):
    options: dict[str, Any] = {"loss": CrossEntropy, "optimizer": SGD(lr=0.1), "batch": 5}
    first, second = (noeira.compile(Normed, seed=seed, **options) for seed in (1, 2))
    x, y = np.random.default_rng(0).random((5, 4), np.float32), np.arange(5) % 3
    for _ in range(3):
        first.step(x, y)
    first.tensors.save(tmp_path / "net.safetensors")
    assert {*load_file(tmp_path / "net.safetensors")} == {*first.params, *Normed.buffers()}
    second.tensors.load(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(second.forward(x), first.forward(x))
    assert second.tensors["1.calls"] == 3
    assert second.module.buffer("1.mean").val.tobytes() == first.tensors["1.mean"].tobytes()
    assert second.step(x, y) == first.step(x, y)
    before = {name: array.copy() for name, array in second.tensors.items()}
    for given, message in (
        (first.params, "it lacks 1.calls, and there are 5 more"),
        ({**first.tensors, "1.mean": np.zeros(6, int)}, r"1\.mean as int64\[6\], not float32\[6\]"),
    ):
        with pytest.raises(CheckpointError, match=message):
            second.tensors.load(given)
        assert all(second.tensors[n].tobytes() == array.tobytes() for n, array in before.items())
    assert repr(second.tensors).startswith(f"<{sum(a.size for a in before.values())} elements: 0.")


class Halves(Module):
    """x + bias, beside two buffers that are kept in 16 bits."""

    bias = Param("DIM", init="bias")
    wide = Buffer("DIM", dtype="bf16", init=Distribution("normal", (0.0, 1.0)))
    narrow = Buffer("DIM", dtype="f16", init=Distribution("normal", (0.0, 1.0)))
    DIM = size()
    signature = "(DIM) -> (DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("add", x, scope.param("bias"))


def test_a_checkpoint_has_buffers_of_16_bits(tmp_path: Path):
    first, second = (noeira.compile(Halves[3], seed=seed) for seed in (1, 2))
    first.tensors.save(tmp_path / "net.safetensors")
    second.tensors.load(tmp_path / "net.safetensors")
    for name, array in first.tensors.items():
        assert second.tensors[name].tobytes() == array.tobytes(), name
    with pytest.raises(CheckpointError, match=r"has wide as uint16\[3\], not bfloat16\[3\]"):
        second.tensors.load({**first.tensors, "wide": np.zeros(3, np.uint16)})


def test_what_programs_and_trainers_print():
    kind = Sequential[Linear[4, 3], Linear[3, 2]]
    program = noeira.compile(kind, target="reference")
    text = "Sequential[Linear[4, 3], Linear[3, 2]]"
    assert repr(program) == f"<program {text} on reference, batch 1: forward>"
    members = "0.weight [4, 3], 1.weight [3, 2], 0.bias [3], 1.bias [2]"
    assert repr(program.params) == f"<23 parameters: {members}>"
    with pytest.raises(NoeiraError, match=re.escape(f"{text} has no step: ")):
        program.step(np.zeros((1, 4), np.float32), np.zeros(1, np.int32))
    assert repr(noeira.Trainer(kind)).startswith(f"<Trainer of {text}: no data yet, fit(train)")
    long = noeira.compile(Sequential[tuple([Linear[4, 4]] * 9)], target="reference")
    assert repr(long).startswith("<program Sequential[…] on reference")
    assert repr(long.params).endswith(" 3.weight [4, 4], …>")


def test_a_result_is_told_by_what_was_measured():
    class_wise = Epoch(0.5, 0.123456, 1.0, {"accuracy": 0.5}, frozenset({"accuracy"}))
    assert str(TrainResult((class_wise,))) == "test accuracy 50.0 % (1 epoch, 1.0 s)"
    spread = Epoch(0.5, 0.123456, 1.0, {"perp": 1.99321, "accuracy": 0.5}, frozenset({"accuracy"}))
    assert str(TrainResult((spread,))) == "test perp 1.993 (1 epoch, 1.0 s)"
    assert spread.text("accuracy", 2) == "accuracy 50.00 %"
    assert (
        str(TrainResult((Epoch(0.5, 0.123456, 1.0),) * 2)) == "test loss 0.1235 (2 epochs, 2.0 s)"
    )
    assert str(TrainResult((Epoch(1e-7, None, 0.0123),))) == "loss 1e-07 (1 epoch, 12.3 ms)"


def test_a_result_is_told_by_the_network_that_is_left():
    found = {"loss": 1.043, "accuracy": 0.625}
    best = Evaluation(56, 7, 1.5, 0.01, 0.25, test=found)
    ending = "the best (1 epoch, stopped early, 1.0 s)"
    shares = frozenset({"accuracy"})
    for epoch, expected in (
        (Epoch(0.2, 1.135, 1.0), "test loss 1.135, 1.043 at step 56, "),
        (Epoch(0.2, 1.1, 1.0, {"accuracy": 0.7}, shares), "test accuracy 70.0 %, 62.5 % at step"),
        (Epoch(0.3, None, 1.0), "loss 0.3, 0.25 at step 56, "),
    ):
        told = str(TrainResult((epoch,), best=best, ended="patience", restored=True))
        assert told.startswith(expected) and told.endswith(ending)
    stayed = TrainResult((Epoch(0.2, 1.135, 1.0),), best=best, ended="patience")
    assert str(stayed) == "test loss 1.135 (1 epoch, stopped early, 1.0 s)"
