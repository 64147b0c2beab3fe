"""The logs of a training: a row an evaluation in `metrics.csv` and `metrics.jsonl`, and, where
asked for, in the event files of TensorBoard.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noeira.disk import replace_file
from noeira.errors import DataError
from noeira.training.folder import CSV, EVENTS, JSONL
from noeira.training.result import COLUMNS, Evaluation

# Columns that say where a row is and not what was found.
PLACE = ("step", "epoch", "seconds")


class Logs:
    """Appends rows, each at once and as a whole line; `columns` are those of every row.

    events: whether TensorBoard's are written too.
    """

    def __init__(self, folder: Path, columns: Sequence[str], events: bool) -> None:
        self.folder, self.columns, self.events = folder, columns, events
        self.writer: Any = None

    def begin(self, evaluations: Sequence[Evaluation]) -> None:
        """Write the rows that there are so far, in place of what the files have: a part of a line,
        or rows after the checkpoint that training goes on from. Raises DataError.
        """
        lines = [csv_line(self.columns, {name: name for name in self.columns})]
        rows = [one.row for one in evaluations]
        self.replace(CSV, [*lines, *(csv_line(self.columns, row) for row in rows)])
        self.replace(JSONL, [json_line(self.columns, row) for row in rows])
        if self.events:
            from tensorboardX import SummaryWriter

            last = evaluations[-1].step if evaluations else 0
            # What an earlier run wrote after that step is not shown.
            purge = last + 1 if evaluations else None
            self.writer = SummaryWriter(str(self.folder / EVENTS), purge_step=purge)

    def replace(self, name: str, lines: Sequence[str]) -> None:
        """Write a file anew."""
        try:
            replace_file(self.folder / name, "".join(lines).encode())
        except OSError as error:
            raise unwritable(self.folder / name, error) from None

    def add(self, evaluation: Evaluation) -> None:
        """One more row. Raises DataError."""
        row = evaluation.row
        for name, line in ((CSV, csv_line), (JSONL, json_line)):
            try:
                with open(self.folder / name, "ab", buffering=0) as file:
                    file.write(line(self.columns, row).encode())
            except OSError as error:
                raise unwritable(self.folder / name, error) from None
        if self.writer is not None:
            for name in self.columns:
                if name not in PLACE and row.get(name) is not None:
                    tag = name.replace("test_", "test/", 1) if name.startswith("test_") else name
                    self.writer.add_scalar(tag, row[name], evaluation.step)
            self.writer.flush()

    def close(self) -> None:
        """Let go of the event file."""
        if self.writer is not None:
            self.writer.close()


def columns_of(metrics: Sequence[str], tested: bool, norm: bool) -> tuple[str, ...]:
    """The columns of a training's logs. norm: whether its program tells the norm of gradients."""
    own = [name for name in COLUMNS if norm or name != "grad_norm"]
    return (*own, *(f"test_{name}" for name in (["loss", *metrics] if tested else [])))


def csv_line(columns: Sequence[str], row: dict[str, Any]) -> str:
    """A row of comma-separated values; floats have all their digits."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([row.get(name) for name in columns])
    return line.getvalue()


def json_line(columns: Sequence[str], row: dict[str, Any]) -> str:
    """A row as an object of JSON, which has no nan and no infinity: null stands for them."""
    values = {name: row.get(name) for name in columns}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            values[name] = None
    return json.dumps(values) + "\n"


def unwritable(path: Path, error: OSError) -> DataError:
    """The error for a log that cannot be written."""
    return DataError(f"{path} cannot be written: {error.strerror or error}")
