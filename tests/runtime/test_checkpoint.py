"""Checkpoints: training goes on bit for bit in another process; files of others are refused."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import needs_compiler
from resumed_training import Net, data, program
from safetensors.numpy import load_file, save_file

import noeira
from noeira.errors import CheckpointError
from noeira.ir.graph import Value
from noeira.nn import SGD, CrossEntropy, Linear, Metric, Scope, Sequential

PATH = os.pathsep.join(sys.path)


@pytest.mark.parametrize("target", ["cpu", "reference", "cuda-cpu"])
def test_training_goes_on_bit_for_bit_in_another_process(target: str, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.safetensors") for name in ("half", "resumed", "whole")]
    half, resumed, whole = paths
    trained = program(target)
    trained.load(*data())
    trained.lr = 0.05
    # In the middle of the second epoch.
    trained.steps(7)
    trained.save(half)
    command = [sys.executable, "-m", "resumed_training", target, half, resumed, "8"]
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"PYTHONPATH": PATH})
    trained.steps(8)
    trained.save(whole)
    found, expected = load_file(resumed), load_file(whole)
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name
    assert expected["%lr"] == 0.05 and expected["%cursor"] == 69 and expected["%seed"] == 5
    assert expected["%adam.step"] == expected["%tick"] == 15
    assert expected["%adam.m.0.weight"].shape == (4, 6)
    assert expected["%samples"] == 23 and expected["1.calls"] == 15
    # Restored where data are loaded already, and another step was taken.
    trained.restore(half)
    trained.steps(8)
    trained.save(half)
    assert Path(half).read_bytes() == Path(whole).read_bytes()


def test_a_checkpoint_has_the_network(tmp_path: Path) -> None:
    trained, path = program("reference"), tmp_path / "new" / "net.safetensors"
    trained.load(*data())
    trained.steps(3)
    trained.save(path)
    served = noeira.compile(Net, target="reference", batch=5, dtype="f64", seed=9)
    x, _ = data()
    before = served.forward(x)
    served.tensors.load(path)
    assert served.forward(x).tobytes() == trained.forward(x).tobytes() != before.tobytes()
    served.save(path)
    assert set(load_file(path)) == set(served.tensors)
    other = noeira.compile(Net, target="reference", batch=5, dtype="f64", seed=10)
    other.restore(path)
    assert other.forward(x).tobytes() == served.forward(x).tobytes()
    with pytest.raises(
        CheckpointError,
        match=r"net\.safetensors: this .* it lacks %seed, and there are 17 more states; ",
    ):
        trained.restore(path)
    assert [one.name for one in path.parent.iterdir()] == ["net.safetensors"]


@needs_compiler
def test_training_goes_on_with_other_threads_and_its_tensors_on_another_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, ends = tmp_path / "half.safetensors", set[bytes]()
    for threads in ("2", "1", "3"):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        trained = program("cpu", batch=300)
        if half.exists():
            trained.restore(half)
        trained.load(*data(700))
        if not half.exists():
            trained.steps(4)
            trained.save(half)
        trained.steps(4)
        trained.save(tmp_path / "end.safetensors")
        ends.add((tmp_path / "end.safetensors").read_bytes())
    assert len(ends) == 1
    saved = load_file(half)
    for target in ("reference", "cuda-cpu"):
        other = program(target, seed=1, batch=300)
        other.restore(half)
        for name, array in other.tensors.items():
            assert array.tobytes() == saved[name].tobytes(), name
        other.save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == half.read_bytes()


def test_what_is_no_checkpoint_of_a_program_changes_nothing(tmp_path: Path) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.load(*data())
    trained.steps(3)
    trained.save(path)
    good = path.read_bytes()
    other = program("reference", optimizer=SGD(lr=0.1, momentum=0.9))
    with pytest.raises(CheckpointError, match=r"it lacks %sgd\.m\.0\.weight"):
        other.restore(path)
    other.save(tmp_path / "momentum.safetensors")
    for changed, name, message in (
        (
            {"optimizer": SGD(lr=0.1)},
            "momentum.safetensors",
            r"this program keeps no %sgd\.m\.0\.weight; ",
        ),
        ({"batch": 7}, "net.safetensors", r"in batches of \d, .* takes 7: compile\(…, batch=\d\)"),
    ):
        with pytest.raises(CheckpointError, match=message):
            program("reference", **changed).restore(tmp_path / name)
    small = noeira.compile(Sequential[Linear[4, 3]], target="reference")
    with pytest.raises(CheckpointError, match=r"these .* it has 0\.weight as f.* are of Seq"):
        small.restore(path)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(
        CheckpointError, match=r"its header would have .* bytes, and the file ends after"
    ):
        trained.restore(path)
    trained.tensors.load(dict(trained.tensors))
    save_file(dict(trained.tensors), path)
    with pytest.raises(CheckpointError, match="is no checkpoint: noeira did not write it; the net"):
        trained.restore(path)
    with pytest.raises(CheckpointError, match=r"none cannot be read: No such file"):
        trained.restore(tmp_path / "none")
    # A write that fails leaves the file that was there, and nothing else.
    path.write_bytes(good)
    with pytest.raises(CheckpointError, match="cannot be written"):
        trained.save(path / "below.safetensors")
    trained.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == good


def test_data_of_another_length_begin_at_their_beginning(tmp_path: Path) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.load(*data())
    trained.steps(3)
    trained.save(path)
    trained.load(*data(10))
    trained.restore(path)
    assert trained.loaded().done == 0 and trained.loaded().epoch == 0
    trained.restore(path)
    trained.load(*data())
    assert trained.loaded().done == 0
    trained.restore(path)
    assert trained.loaded().done == 3


class Drawn(Metric):
    """A number that evaluation draws."""

    signature = "(*, C), (*: i32 < C) -> (), ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, Value]:
        zero = scope.emit("constant", value=0.0, dtype="f64")
        drawn = scope.emit("accumulate", zero, scope.random()[1])
        return drawn, scope.emit("constant", value=1.0, dtype="f64")


def test_what_only_evaluation_keeps_is_no_other_optimizer(tmp_path: Path) -> None:
    options: Any = {"loss": CrossEntropy, "optimizer": SGD, "batch": 5, "metrics": [Drawn]}
    trained, again = (
        noeira.compile(Linear[4, 3], target="reference", dtype="f64", **options) for _ in range(2)
    )
    trained.load(*data(), evaluation=data())
    trained.steps(3)
    trained.evaluate()
    trained.save(tmp_path / "net.safetensors")
    assert "%draws" in load_file(tmp_path / "net.safetensors")
    again.restore(tmp_path / "net.safetensors")
    again.load(*data())
    assert again.loaded().done == 3


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_checkpoint_needs_the_name_of_a_file(path: str) -> None:
    with pytest.raises(CheckpointError, match=f"'{path}' names no file: write one such as"):
        program("reference").save(path)


def test_a_file_is_named_by_a_path() -> None:
    given: Any = None
    message = "a file is named by a path such as 'net.safetensors', not None"
    one = program("reference")
    for call in (one.save, one.tensors.save, one.restore):
        with pytest.raises(CheckpointError, match=f"^{message}$"):
            call(given)


def test_a_closed_program_has_no_training_to_save_or_to_go_on_with(tmp_path: Path) -> None:
    kept, late = tmp_path / "kept.safetensors", tmp_path / "late.safetensors"
    closed = program("reference")
    closed.load(*data())
    closed.steps(3)
    closed.save(kept)
    closed.close()
    with pytest.raises(noeira.NoeiraError, match=r"the program .* is closed"):
        closed.save(late)
    with pytest.raises(noeira.NoeiraError, match=r"the program .* is closed"):
        closed.restore(kept)
    assert not late.exists()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_program_is_not_copied(copied: Callable[[Any], Any]) -> None:
    with pytest.raises(noeira.NoeiraError, match=r"cannot be pickled or copied.*program\.module"):
        copied(program("reference"))
