"""Damaged files, at random: each is refused with one clear error, and nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from damage import OURS, THEIRS, Change, damaged
from resumed_training import data, program
from safetensors.numpy import load_file, save_file

import noeira
from noeira.errors import CheckpointError
from noeira.runtime.resume import beside, position

SEED = 20261130


def content(trained: noeira.Program) -> dict[str, bytes]:
    """All that a file can change of a program."""
    found = {**trained.tensors, **beside(trained), **position(trained)}
    return {name: array.tobytes() for name, array in found.items()}


def expect_refusals(
    path: Path, good: bytes, changes: tuple[Change, ...], load: Callable[[Path], None], count: int
) -> Counter[str]:
    """Damage a file so many times, and load it; how often it was damaged in which way."""
    random, done = np.random.default_rng(SEED), Counter[str]()
    for index in range(count):
        kind, bad = damaged(good, changes, random)
        path.write_bytes(bad)
        try:
            load(path)
        except CheckpointError as error:
            text = str(error)
            assert text.startswith(str(path)) and len(text) < len(str(path)) + 600, text
        else:
            path.with_suffix(".kept").write_bytes(bad)
            pytest.fail(f"{kind}, number {index}: nothing was said of {path.with_suffix('.kept')}")
        done[kind] += 1
    return done


@pytest.mark.parametrize(
    "count", [100, pytest.param(5000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_damaged_files_are_refused(tmp_path: Path, count: int) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.load(*data())
    trained.steps(3)
    trained.save(path)
    checkpoint = path.read_bytes()
    save_file(dict(trained.tensors), path)
    assert not {"%seed"} & set(load_file(path))
    tensors = path.read_bytes()
    trained.steps(3)
    before = content(trained)
    done = expect_refusals(path, checkpoint, OURS, trained.restore, count)
    assert content(trained) == before and len(done) == len(OURS)
    done = expect_refusals(path, tensors, THEIRS, trained.tensors.load, count)
    assert content(trained) == before and len(done) == len(THEIRS)
    # What was not damaged is taken.
    path.write_bytes(checkpoint)
    trained.restore(path)
    assert content(trained) != before


@pytest.mark.slow
def test_every_bit_of_a_checkpoint_counts(tmp_path: Path) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.save(path)
    good, before = path.read_bytes(), content(trained)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        with pytest.raises(CheckpointError):
            trained.restore(path)
    assert content(trained) == before
