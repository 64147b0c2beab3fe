"""Progress of training: a bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from noeira.training.result import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Reporter:
    """Shows progress: `shown` False shows nothing."""

    def __init__(self, epochs: int, batches: int, shown: bool) -> None:
        self.epochs, self.batches, self.shown = epochs, batches, shown
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        if shown and sys.stdout.isatty():
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, transient=True)

    def __enter__(self) -> Reporter:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("training", total=self.batches)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, number: int) -> None:
        """Epoch `number`, from 1, begins."""
        if self.bar is not None and self.task is not None:
            self.bar.reset(self.task, description=f"epoch {number}/{self.epochs}")

    def advance(self, steps: int) -> None:
        """Steps were done."""
        if self.bar is not None and self.task is not None:
            self.bar.advance(self.task, steps)

    def end(self, number: int, epoch: Epoch) -> None:
        """Epoch `number` is over."""
        test = ""
        if epoch.test_loss is not None:
            test += f"  test loss {epoch.test_loss:.4f}"
        for name in epoch.metrics:
            test += f"  {epoch.text(name, 2)}"
        self.say(
            f"epoch {number}/{self.epochs}  loss {epoch.loss:.4f}{test}  {epoch.seconds:.2f} s"
        )

    def say(self, line: str) -> None:
        """One line."""
        if not self.shown:
            return
        if self.bar is not None:
            self.bar.console.print(line, highlight=False)
        else:
            print(line, flush=True)
