"""Passes over a data set: which call comes next follows from the number of samples taken."""

from __future__ import annotations

import pytest

from noeira.errors import NoeiraError
from noeira.ir.builder import Builder
from noeira.ir.entry import DataPass, Entry, in_batches
from noeira.ir.text.dump import Dump


def entry(name: str, rows: int) -> Entry:
    """An entry that does nothing."""
    return Entry(Dump(Builder(f"net.{name}").done(())), rows, "training")


def test_the_next_call_follows_from_the_samples_taken() -> None:
    data = in_batches("steps", 10, 4, entry)
    assert [(e.name, e.rows, n) for e, n in data.turns] == [("steps", 4, 2), ("steps.last", 2, 1)]
    for taken, done, name in ((0, 0, "steps"), (4, 1, "steps"), (8, 2, "steps.last")):
        assert data.done(taken) == done
        assert data.following(done)[0].name == name
    assert data.done(10) == data.calls == 3


def test_no_samples_have_no_calls() -> None:
    data = in_batches("evaluate", 0, 1, entry)
    assert data == DataPass() and data.done(0) == data.calls == 0


def test_an_entry_that_takes_no_samples_has_no_turn() -> None:
    turns = ((entry("accumulate", 4), 2), (entry("apply", 0), 1))
    with pytest.raises(NoeiraError, match="apply takes no samples, so a pass over a data set"):
        DataPass(8, turns)
