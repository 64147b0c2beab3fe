"""Passes over a data set: which call comes next follows from the number of samples taken."""

from __future__ import annotations

import pytest

from noeira.errors import NoeiraError
from noeira.ir.builder import Builder
from noeira.ir.entry import DataPass, Entry, Round, in_batches
from noeira.ir.text.dump import Dump


def entry(name: str, rows: int, complete: bool = True) -> Entry:
    """An entry that does nothing."""
    return Entry(Dump(Builder(f"net.{name}").done(())), rows, "training")


def calls(data: DataPass) -> list[tuple[str, int, bool]]:
    """All calls in turn: the entry, how many in a row, whether each completes a step."""
    found, taken = [], 0
    while taken < data.samples:
        one = data.following(taken)
        found.append((one.entry.name, one.calls, one.completes))
        taken += one.calls * one.entry.rows
    assert taken == data.samples
    return found


def test_the_next_call_follows_from_the_samples_taken() -> None:
    data = in_batches("steps", 10, 4, entry)
    assert calls(data) == [("steps", 2, True), ("steps.last", 1, True)]
    for taken, done, name, left in (
        (0, 0, "steps", 2),
        (4, 1, "steps", 1),
        (8, 2, "steps.last", 1),
    ):
        assert data.done(taken) == done
        assert (data.following(taken).entry.name, data.following(taken).calls) == (name, left)
    assert data.done(10) == data.steps == 3


def test_batches_are_taken_in_parts() -> None:
    whole = [("steps.micro", 2, False), ("steps", 1, True)]
    # 31 samples are two batches of 12 in parts of 4, then 7: a part of 4, and 3.
    data = in_batches("steps", 31, 12, entry, parts=3)
    assert calls(data) == [*whole, *whole, ("steps.micro", 1, False), ("steps.last", 1, True)]
    assert [e.rows for e in data.entries] == [4, 4, 3]
    assert data.steps == 3 and [data.done(n) for n in (0, 4, 11, 12, 24, 28, 31)] == [
        *(0, 0, 0, 1, 2, 2, 3)
    ]
    # A rest of whole parts, of one part, and of less than one.
    assert calls(in_batches("steps", 20, 12, entry, parts=3))[2:] == [
        ("steps.micro", 1, False),
        ("steps", 1, True),
    ]
    assert calls(in_batches("steps", 16, 12, entry, parts=3))[2:] == [("steps", 1, True)]
    assert calls(in_batches("steps", 13, 12, entry, parts=3))[2:] == [("steps.last", 1, True)]


def test_no_samples_have_no_calls() -> None:
    data = in_batches("evaluate", 0, 1, entry)
    assert data == DataPass() and data.done(0) == data.steps == 0


def test_an_entry_that_takes_no_samples_has_no_turn() -> None:
    turns = ((entry("accumulate", 4), 2), (entry("apply", 0), 1))
    with pytest.raises(NoeiraError, match="apply takes no samples, so a pass over a data set"):
        DataPass(8, (Round(turns),))
