"""Progress of training: a bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noeira.report.table import seconds_text, short
from noeira.training.history import Sum
from noeira.training.measure import LOSS
from noeira.training.result import Epoch, Evaluation, metric_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# What the bar says of the present epoch: sum of losses and samples so far, and the learning rate.
Told = Callable[[], tuple[float, int, float]]


class Reporter:
    """Shows progress: `shown` False shows nothing. batches: of an epoch, None if nobody knows.
    averaged: whether it is the moving average that is evaluated.
    """

    def __init__(
        self, epochs: int, batches: int | None, shown: bool, averaged: bool = False
    ) -> None:
        self.epochs, self.batches, self.shown, self.averaged = epochs, batches, shown, averaged
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        # When the present epoch began here, and how many of its samples were done before.
        self.begun, self.known = 0.0, 0
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
                TextColumn("{task.fields[told]}"),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, transient=True)

    def __enter__(self) -> Reporter:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("training", total=self.batches, told="")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, number: int, known: Sum, batches: int | None) -> None:
        """Epoch `number`, from 1, begins, or goes on after what is known of it."""
        self.begun, self.known = time.perf_counter(), known.samples
        if self.bar is not None and self.task is not None:
            about = {"description": f"epoch {number}/{self.epochs}", "total": batches}
            self.bar.reset(self.task, completed=known.steps, **about)

    def advance(self, steps: int, told: Told) -> None:
        """Steps were done."""
        if self.bar is None or self.task is None:
            return
        total, samples, lr = told()
        speed = rate((samples - self.known) / max(time.perf_counter() - self.begun, 1e-9))
        text = f"loss {total / max(samples, 1):.4f}  lr {lr:.3g}  {speed}"
        self.bar.update(self.task, advance=steps, told=text)

    def row(self, evaluation: Evaluation, shares: frozenset[str]) -> None:
        """An evaluation within an epoch was made."""
        tested = self.tested(evaluation.test, shares)
        self.say(f"  step {evaluation.step}  loss {evaluation.loss:.4f}{tested}")

    def end(self, epoch: Epoch) -> None:
        """An epoch is over."""
        tested, told = "", seconds_text(epoch.seconds - epoch.evaluating, 2)
        if epoch.test_loss is not None:
            tested = self.tested({LOSS: epoch.test_loss, **epoch.metrics}, epoch.shares)
            told += f" + {seconds_text(epoch.evaluating, 2)}"
        self.say(
            f"epoch {epoch.number}/{self.epochs}  loss {epoch.loss:.4f}{tested}  {told}"
            f"  {rate(epoch.samples_per_second)}"
        )

    def tested(self, found: Mapping[str, float], shares: frozenset[str]) -> str:
        """What was found in the test data, as it is printed."""
        of = " of the average" if self.averaged else ""
        return "".join(
            f"  test loss {value:.4f}{of}"
            if name == LOSS
            else f"  {metric_text(name, value, shares, 2)}"
            for name, value in found.items()
        )

    def say(self, line: str) -> None:
        """One line."""
        if not self.shown:
            return
        if self.bar is not None:
            self.bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            print(line, flush=True)


def rate(samples: float) -> str:
    """Throughput, as it is printed: `143k samples/s`."""
    return f"{short(round(samples))} samples/s"


@contextmanager
def building(shown: bool) -> Iterator[None]:
    """On a terminal, say that a program is built, for as long as that takes."""
    if not shown or not sys.stdout.isatty():
        yield
        return
    said = "building …"
    print(said, end="", flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(said)}\r", end="", flush=True)
