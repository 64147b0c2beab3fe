"""What training tells: frozen records of a step, an evaluation, an epoch, and of all together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from noeira.report.table import seconds_text

# Why training ended: its epochs were done, Ctrl-C, nothing got better, or a callback asked for it.
Ending: TypeAlias = Literal["epochs", "interrupted", "patience", "callback"]

ENDINGS = {"interrupted": ", interrupted", "patience": ", stopped early", "callback": ", stopped"}


@dataclass(frozen=True)
class Step:
    """One training step.

    step: its number from 1, counted over the epochs; epoch: the number of its epoch, from 1. loss:
    mean over its samples, before its update. lr: of the step, by its schedule. grad_norm: of all
    gradients before clipping, None unless they are clipped by it.
    """

    step: int
    epoch: int
    loss: float
    lr: float
    grad_norm: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Where training stands after so many steps: a row of the logs.

    step, epoch, lr: of the last step. seconds: of training and evaluation so far. loss, grad_norm:
    means since the row before. test: what `evaluate` gave by name, `loss`, `accuracy`, …; empty
    without test data.
    """

    step: int
    epoch: int
    seconds: float
    lr: float
    loss: float
    grad_norm: float | None = None
    test: Mapping[str, float] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, Any]:
        """By column: those of the record, then `test_loss`, `test_accuracy`, …"""
        own: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS}
        return own | {f"test_{name}": value for name, value in self.test.items()}


COLUMNS = ("step", "epoch", "seconds", "lr", "loss", "grad_norm")


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data.

    loss: mean over the samples, as they were met. test_loss: over the test data afterwards, None
    without; metrics: likewise, by name; shares: the names of those that are printed in per cent.
    seconds: of training and evaluation together, evaluating: of evaluation alone. number: from 1.
    step: steps done since training began; samples: of this epoch that were trained on here. lr: of
    the last step.
    """

    loss: float
    test_loss: float | None
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    shares: frozenset[str] = frozenset()
    number: int = 0
    step: int = 0
    samples: int = 0
    evaluating: float = 0.0
    lr: float = 0.0

    def text(self, name: str, places: int) -> str:
        """A metric as it is printed: `accuracy 97.8 %`, `perplexity 1.993`."""
        return metric_text(name, self.metrics[name], self.shares, places)

    @property
    def accuracy(self) -> float | None:
        """Share of the test data whose class was found, from 0 to 1; None without such a metric."""
        return self.metrics.get("accuracy")

    @property
    def samples_per_second(self) -> float:
        """Samples trained on in a second, evaluation left out."""
        training = self.seconds - self.evaluating
        return self.samples / training if training > 0 else 0.0


@dataclass(frozen=True)
class TrainResult:
    """The epochs that were completed.

    interrupted: whether Ctrl-C ended training before the last. evaluations: every row of the logs,
    those within epochs too. best: the one that was best by the measure of `stop` or `best`, by
    default of the loss, of the test data where there are any. ended: what ended it. restored:
    whether the network is that of `best` again, which was not the last. After a `resume` all this
    is of the whole training, not of its last part alone.
    """

    epochs: tuple[Epoch, ...]
    interrupted: bool = False
    evaluations: tuple[Evaluation, ...] = ()
    best: Evaluation | None = None
    ended: Ending = "epochs"
    restored: bool = False

    @property
    def accuracy(self) -> float | None:
        """Test accuracy after the last epoch, from 0 to 1; None without test data."""
        return self.epochs[-1].accuracy if self.epochs else None

    @property
    def loss(self) -> float | None:
        """Training loss of the last epoch."""
        return self.epochs[-1].loss if self.epochs else None

    @property
    def seconds(self) -> float:
        """Seconds of all epochs."""
        return sum(epoch.seconds for epoch in self.epochs)

    def __str__(self) -> str:
        count = f"{len(self.epochs)} epoch{'' if len(self.epochs) == 1 else 's'}"
        count += ENDINGS["interrupted"] if self.interrupted else ENDINGS.get(self.ended, "")
        if not self.epochs:
            return count
        last, best = self.epochs[-1], self.best
        if last.metrics:
            name = next(iter(last.metrics))
            found = f"test {last.text(name, 1)}"
        elif last.test_loss is not None:
            name, found = "loss", f"test loss {last.test_loss:.4g}"
        else:
            name, found = "", f"loss {last.loss:.4g}"
        if self.restored and best is not None:
            value = best.test[name] if name else best.loss
            found += f", {value_text(name, value, last.shares, 1)} at step {best.step}, the best"
        return f"{found} ({count}, {seconds_text(self.seconds, 1)})"


def metric_text(name: str, value: float, shares: Collection[str], places: int) -> str:
    """A metric as it is printed: `accuracy 97.8 %`, `perplexity 1.993`; those in `shares` in per
    cent.
    """
    return f"{name} {value_text(name, value, shares, places)}"


def value_text(name: str, value: float, shares: Collection[str], places: int) -> str:
    """The value of a metric, or of the loss, as `metric_text` prints it."""
    return f"{100 * value:.{places}f} %" if name in shares else f"{value:.4g}"
