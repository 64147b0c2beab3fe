"""The logs of a training: rows, event files, the picture."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trained import DATA, fit, made_up, rows, trainer

import noeira
from noeira.nn import Accuracy, TopK


def test_rows_are_what_fit_gave(tmp_path: Path) -> None:
    one = trainer()
    result = fit(one, tmp_path / "runs" / "1", 3, evaluate_every=2)
    found = rows(tmp_path / "runs" / "1")
    columns = ["step", "epoch", "seconds", "lr", "loss", "test_loss", "test_accuracy"]
    assert all(list(row) == columns for row in found)
    assert [(r["step"], r["epoch"]) for r in found] == [
        (2, 1), (4, 1), (5, 1), (6, 2), (8, 2), (10, 2), (12, 3), (14, 3), (15, 3),
    ]  # fmt: skip
    expected = [{k: v for k, v in e.row.items() if k != "grad_norm"} for e in result.evaluations]
    assert found == expected
    assert [e.test_loss for e in result.epochs] == [
        r["test_loss"] for r in found if r["step"] % 5 == 0
    ]
    names = {path.name for path in (tmp_path / "runs" / "1").iterdir()}
    assert names == {
        "last.safetensors", "last.json", "best.safetensors", "metrics.csv", "metrics.jsonl",
    }  # fmt: skip


def test_rows_after_the_checkpoint_and_parts_of_lines_are_dropped(tmp_path: Path) -> None:
    fit(trainer(), tmp_path, 2)
    for name, part in (("metrics.csv", "99,9,1.0,0.1,0.5,0.5,0.5\n12,"), ("metrics.jsonl", '{"s')):
        with open(tmp_path / name, "a") as file:
            file.write(part)
    fit(trainer(), tmp_path, 3, resume=True)
    assert [row["step"] for row in rows(tmp_path)] == [5, 10, 15]


def test_values_that_are_no_numbers_are_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch, [np.nan])
    fit(trainer(), tmp_path, 1)
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=lambda text: text)["test_accuracy"] is None
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1].endswith(",1.0,nan")


def test_events_are_written_and_what_is_done_again_is_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Any]()

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int | None) -> None:
            self.folder, self.purge_step = folder, purge_step
            self.scalars, self.open = dict[tuple[str, int], float](), True
            made.append(self)

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            self.scalars[tag, step] = value

        def flush(self) -> None:
            """Nothing waits."""

        def close(self) -> None:
            self.open = False

    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=SummaryWriter))
    fit(trainer(), tmp_path, 2, tensorboard=True)
    result = fit(trainer(), tmp_path, 3, tensorboard=True, resume=True)
    assert [one.purge_step for one in made] == [None, 11] and not any(one.open for one in made)
    expected = {}
    for evaluation in result.evaluations:
        names = {"lr": "lr", "loss": "loss", "test/loss": "test_loss"}
        names["test/accuracy"] = "test_accuracy"
        expected |= {(tag, evaluation.step): evaluation.row[n] for tag, n in names.items()}
    assert made[0].scalars | made[1].scalars == expected
    assert made[0].folder == str(tmp_path / "tensorboard")


def records(data: bytes) -> Iterator[bytes]:
    """The records of an event file: each has its length, a checksum, its bytes, a checksum."""
    while data:
        (length,) = struct.unpack_from("<Q", data)
        yield data[12 : 12 + length]
        data = data[16 + length :]


@pytest.mark.slow
def test_tensorboard_gets_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    from tensorboardX.proto.event_pb2 import Event

    result = fit(trainer(), tmp_path, 2, tensorboard=True)
    (path,) = (tmp_path / "tensorboard").iterdir()
    found = dict[tuple[str, int], float]()
    for record in records(path.read_bytes()):
        event = Event.FromString(record)
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
    for evaluation in result.evaluations:
        for tag, column in (("loss", "loss"), ("test/accuracy", "test_accuracy"), ("lr", "lr")):
            assert found[tag, evaluation.step] == pytest.approx(evaluation.row[column], rel=1e-6)


def test_the_picture_is_one(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    fit(trainer(), tmp_path, 2, plot=True)
    assert (tmp_path / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_picture_of_rows_that_lack_what_later_ones_have(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    trainer().fit(DATA, epochs=1, folder=tmp_path, best="loss", progress=False)
    fit(trainer(), tmp_path, 2, resume=True, best="loss")
    more = trainer(metrics=[Accuracy, TopK[2]])
    fit(more, tmp_path, 3, resume=True, best="loss", plot=True)
    assert (tmp_path / "loss.png").exists()


@pytest.mark.parametrize(
    ("option", "package", "extra"),
    [("tensorboard", "tensorboardX", "tensorboard"), ("plot", "matplotlib", "viz")],
)
def test_a_package_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, package: str, extra: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(noeira.OptionError) as caught:
        fit(trainer(), tmp_path / "run", 1, **{option: True})
    assert str(caught.value) == f"{option}=True needs {package}: pip install 'noeira[{extra}]'"
    assert not (tmp_path / "run").exists()
