"""What training gives: a record of each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data.

    loss: mean over the samples, as they were met. test_loss: over the test data afterwards, None
    without; metrics: likewise, by name; shares: the names of those that are printed in per cent.
    seconds: of training and evaluation together.
    """

    loss: float
    test_loss: float | None
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    shares: frozenset[str] = frozenset()

    def text(self, name: str, places: int) -> str:
        """A metric as it is printed: `accuracy 97.8 %`, `perplexity 1.993`."""
        value = self.metrics[name]
        shown = f"{100 * value:.{places}f} %" if name in self.shares else f"{value:.4g}"
        return f"{name} {shown}"

    @property
    def accuracy(self) -> float | None:
        """Share of the test data whose class was found, from 0 to 1; None without such a metric."""
        return self.metrics.get("accuracy")


@dataclass(frozen=True)
class TrainResult:
    """The epochs that were completed; `interrupted` if Ctrl-C ended training before the last."""

    epochs: tuple[Epoch, ...]
    interrupted: bool = False

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
        if self.interrupted:
            count += ", interrupted"
        if not self.epochs:
            return count
        last = self.epochs[-1]
        if last.metrics:
            found = f"test {last.text(next(iter(last.metrics)), 1)}"
        elif last.test_loss is not None:
            found = f"test loss {last.test_loss:.4g}"
        else:
            found = f"loss {last.loss:.4g}"
        return f"{found} ({count}, {self.seconds:.1f} s)"
