"""What a training has told so far, and how far it is: kept beside its checkpoint, so that a resumed
one goes on as if it had never stopped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from noeira.errors import CheckpointError, OptionError
from noeira.training.measure import Measure
from noeira.training.result import Epoch, Evaluation

VERSION = 1


@dataclass
class Sum:
    """Losses and norms of gradients added up since some moment."""

    loss: float = 0.0
    samples: int = 0
    norm: float | None = None
    steps: int = 0

    def add(self, loss: float, samples: int, norm: float | None, steps: int) -> None:
        """Some steps more. loss: sum over their samples; norm: sum over the steps."""
        self.loss += loss
        self.samples += samples
        if norm is not None:
            self.norm = (self.norm or 0.0) + norm
        self.steps += steps

    @property
    def mean(self) -> float:
        """The mean loss of the samples."""
        return self.loss / max(self.samples, 1)

    @property
    def mean_norm(self) -> float | None:
        """The mean norm of the steps, None where there is none."""
        return None if self.norm is None else self.norm / max(self.steps, 1)


@dataclass
class History:
    """The record of one training, from its first step on.

    steps: done so far. seconds: of training and evaluation. lr: of the last step. epoch, row: since
    the present epoch began, since the last row of the logs; epoch_seconds, evaluating: of the
    present epoch. due: what is to be done before the next step, a row, or one that ends the epoch.
    measure: what is best, as Measure says it; best: the number of the best evaluation, best_file:
    what its checkpoint is told apart from others by; waited: how many came after it.
    """

    steps: int = 0
    seconds: float = 0.0
    lr: float = 0.0
    epoch: Sum = field(default_factory=Sum)
    row: Sum = field(default_factory=Sum)
    epoch_seconds: float = 0.0
    evaluating: float = 0.0
    due: str = ""
    epochs: list[Epoch] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    measure: str = ""
    best: int | None = None
    best_value: float | None = None
    best_file: str = ""
    waited: int = 0

    def add(self, loss: float, samples: int, norm: float | None, steps: int) -> None:
        """Some steps more, as Sum has it."""
        self.steps += steps
        for one in (self.epoch, self.row):
            one.add(loss, samples, norm, steps)

    def spend(self, seconds: float, evaluating: bool = False) -> None:
        """Time that training, or evaluation, took."""
        self.seconds += seconds
        self.epoch_seconds += seconds
        self.evaluating += seconds if evaluating else 0.0

    def close(self, evaluation: Evaluation, epoch: Epoch | None) -> None:
        """A row of the logs, and an epoch if it ends with it."""
        self.evaluations.append(evaluation)
        self.row = Sum()
        if epoch is not None:
            self.epochs.append(epoch)
            self.epoch, self.epoch_seconds, self.evaluating = Sum(), 0.0, 0.0

    def follow(self, measure: Measure, place: Any) -> None:
        """Be about what is best by this measure. Raises OptionError if it is about another."""
        if self.measure not in ("", str(measure)):
            raise OptionError(
                f"what {place} has as the best is the {self.measure}, not the {measure}: go on "
                "with that measure, or name another folder"
            )
        self.measure = str(measure)

    def judge(self, measure: Measure, least: float) -> bool:
        """Whether the last row is the best so far."""
        value = measure.of(self.evaluations[-1])
        if not measure.improves(value, self.best_value, least):
            self.waited += 1
            return False
        self.best, self.best_value, self.waited = len(self.evaluations) - 1, value, 0
        return True

    def to_json(self) -> dict[str, Any]:
        """As an object, exactly: floats are written with all their digits."""
        found: dict[str, Any] = {**asdict(self), "version": VERSION}
        for epoch in found["epochs"]:
            epoch["shares"] = sorted(epoch["shares"])
        return found


def history_of(given: dict[str, Any], path: str) -> History:
    """The history that `to_json` gave. Raises CheckpointError for one of another version."""
    found = dict(given)
    if found.pop("version", None) != VERSION or found.keys() != {f.name for f in fields(History)}:
        raise CheckpointError(f"{path} was written by another version of noeira")
    made: dict[str, Any] = {name: Sum(**found[name]) for name in ("epoch", "row")}
    made["epochs"] = [epoch_of(one) for one in found["epochs"]]
    made["evaluations"] = [Evaluation(**one) for one in found["evaluations"]]
    return History(**(found | made))


def epoch_of(given: dict[str, Any]) -> Epoch:
    """An epoch from its object."""
    return Epoch(**{**given, "shares": frozenset(given["shares"])})
