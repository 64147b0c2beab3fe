"""Which evaluation is the best: a measure, and early stopping when it gets no better."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from noeira.errors import OptionError
from noeira.ir.numbers import finite_number
from noeira.nn.core.option_value import Checked
from noeira.options import counting_number
from noeira.runtime.program import Metric
from noeira.training.result import Evaluation

LOSS, TEST_LOSS = "loss", "test_loss"
# Before a measure: which of two values is the better one.
WORDS = {"smallest": False, "largest": True}


@dataclass(frozen=True)
class EarlyStopping(Checked):
    """Ends training when nothing gets better.

    patience: so many evaluations in a row without an improvement end it. least: what an
    improvement must at least be, in units of the measure. measure: a column of the logs, such as
    `test_loss`, `test_accuracy` or `loss`; by default `test_loss`, without test data `loss`. Losses
    are to be small and shares (accuracy) large; of others say which, `smallest test_perplexity`.
    restore: at the end, go back to the best evaluation, with all that belongs to it: parameters,
    moments, learning rate, and the place in the data. Raises OptionError.
    """

    patience: int = 5
    least: float = 0.0
    measure: str | None = None
    restore: bool = True

    def __post_init__(self) -> None:
        counting_number("EarlyStopping: patience", self.patience)
        least = finite_number(self.least)
        if least is None or least < 0:
            raise OptionError(
                "EarlyStopping: least must be a finite number, 0 or greater, the least "
                f"improvement that counts, not {self.least!r}"
            )
        if not isinstance(self.restore, bool):
            raise OptionError(f"EarlyStopping: restore must be True or False, not {self.restore!r}")


@dataclass(frozen=True)
class Measure:
    """A column of the logs, and whether its larger values are the better ones."""

    column: str
    larger: bool

    def __str__(self) -> str:
        return f"{'largest' if self.larger else 'smallest'} {self.column}"

    def of(self, evaluation: Evaluation) -> float:
        """The value of an evaluation."""
        return float(evaluation.row[self.column])

    def improves(self, value: float, best: float | None, least: float) -> bool:
        """Whether a value is better than the best so far, None for none yet, by more than nothing
        and at least `least`. One that is not a number never is.
        """
        if math.isnan(value):
            return False
        if best is None:
            return True
        gain = value - best if self.larger else best - value
        return gain > 0 and gain >= least


def measure_of(
    option: str, text: str | None, tested: bool, metrics: Mapping[str, Metric]
) -> Measure:
    """The measure that an option names, None for the default.

    metrics: those of the program, by name. Raises OptionError with the measures that there are.
    """
    if text is None:
        return Measure(TEST_LOSS if tested else LOSS, False)
    known = [LOSS, *([TEST_LOSS, *(f"test_{name}" for name in metrics)] if tested else [])]
    if not isinstance(text, str):
        raise OptionError(f"{option} must be one of {', '.join(known)}, not {text!r}")
    first, _, rest = text.partition(" ")
    word, column = (first, rest) if first in WORDS else ("", text)
    if column not in known:
        near = difflib.get_close_matches(column, known, n=1)
        hint = f"; did you mean {near[0]}?" if near and near[0] != column else ""
        without = "" if tested else "; without test data there are no others"
        raise OptionError(
            f"{option} must be one of {', '.join(known)}, not {text!r}{hint}{without}"
        )
    if word:
        return Measure(column, WORDS[word])
    if column in (LOSS, TEST_LOSS):
        return Measure(column, False)
    if not metrics[column.removeprefix("test_")].share:
        raise OptionError(
            f"{option}: {column} is no share of a whole, so say which is better: "
            f"'smallest {column}' or 'largest {column}'"
        )
    return Measure(column, True)
