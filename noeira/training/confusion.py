"""The confusion matrix: how often rows of each true class were taken for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DataError, DtypeError, OptionError, ShapeError
from noeira.report.table import table
from noeira.runtime.arguments import as_array

if TYPE_CHECKING:
    import numpy as np

# Pairs of classes that are listed where a table would be too wide.
LISTED = 20


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """Counts, i64 (C, C): a row is the true class, a column the class that was found: with the
    largest output, or, of one logit a row, class 1 where it is greater than 0.

    names: of the classes, by default their numbers. Its text is a table with the recall of each
    class at the end of its row, and the precision below its column.
    """

    array: np.ndarray
    names: tuple[str, ...]

    @property
    def recall(self) -> np.ndarray:
        """Of the rows of each true class, the share that was found; nan where there are none."""
        return shares(self.array.diagonal(), self.array.sum(1))

    @property
    def precision(self) -> np.ndarray:
        """Of the rows taken for each class, the share that is of it; nan where there are none."""
        return shares(self.array.diagonal(), self.array.sum(0))

    @property
    def accuracy(self) -> float:
        """The share of rows whose class was found."""
        return float(self.array.trace() / self.array.sum())

    def confused(self, most: int = LISTED) -> list[tuple[str, str, int]]:
        """The pairs of a true class and another that it was taken for, and how often: the most
        frequent first.
        """
        import numpy as np

        off = self.array.copy()
        np.fill_diagonal(off, 0)
        order = np.argsort(-off, axis=None, kind="stable")[:most]
        places = [divmod(int(place), len(off)) for place in order]
        return [(self.names[i], self.names[j], int(off[i, j])) for i, j in places if off[i, j]]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 100) -> str:
        """As text: the table, or, if that has lines of more than `width` characters (0 for any),
        a list of the pairs that were confused most often.
        """
        counts = [[str(int(count)) for count in row] for row in self.array]
        recall, precision = (list(map(percent, one)) for one in (self.recall, self.precision))
        rows = [
            [name, *row, share] for name, row, share in zip(self.names, counts, recall, strict=True)
        ]
        rows.append(["precision", *precision, percent(self.accuracy)])
        head = ["true \\ found", *self.names, "recall"]
        lines = table(head, rows, range(1, len(head)))
        if not width or max(map(len, lines)) <= width:
            return "\n".join(lines)
        found = [[a, b, str(count)] for a, b, count in self.confused()]
        title = (
            f"{len(self.names)} classes, accuracy {percent(self.accuracy)}; confused most often:"
        )
        return "\n".join([title, *table(("true", "found", "rows"), found, (2,))])


def shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """Quotients, nan where the whole is 0."""
    import numpy as np

    return np.divide(parts, wholes, out=np.full(len(parts), np.nan), where=wholes > 0)


def percent(share: Any) -> str:
    """A share as it is printed; `-` for nan."""
    return "-" if share != share else f"{100 * float(share):.1f} %"


def confusion_of(outputs: Any, y: Any, names: Sequence[str] | None) -> ConfusionMatrix:
    """The matrix of outputs (N, …, C) and class numbers (N, …), or of one logit a row, (N,) or
    (N, 1), and 0 or 1, (N,) or (N, 1), of any dtype. Raises DataError, ShapeError, DtypeError or
    OptionError.
    """
    import numpy as np

    if isinstance(outputs, tuple):
        raise ShapeError(
            f"a confusion matrix needs one output, of classes or a logit; there are {len(outputs)}"
        )
    target = as_array("y", "y", y, "i32")
    if outputs.ndim == 1 or outputs.shape[1:] == (1,):
        classes, taken, target = 2, outputs.reshape(-1) > 0, zeros_and_ones(target, len(outputs))
    else:
        classes, taken = outputs.shape[-1], outputs.argmax(-1)
        check_classes(target, outputs.shape)
    called = tuple(map(str, range(classes) if names is None else names))
    if len(called) != classes:
        raise OptionError(f"there are {classes} classes, and names has {len(called)}")
    pairs = target.reshape(-1).astype(np.int64) * classes + taken.reshape(-1)
    counts = np.bincount(pairs, minlength=classes * classes)
    return ConfusionMatrix(counts.reshape(classes, classes), called)


def check_classes(target: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raises DtypeError, ShapeError or DataError for what are no class numbers for outputs of this
    shape.
    """
    if target.dtype.kind not in "iu":
        raise DtypeError(
            f"y is {target.dtype.name}; a confusion matrix needs class numbers, integers"
        )
    if target.shape != shape[:-1]:
        raise ShapeError(f"y has shape {target.shape}, it must be {shape[:-1]}")
    if target.min() < 0 or target.max() >= shape[-1]:
        raise DataError(f"y must be class numbers from 0 to {shape[-1] - 1}")


def zeros_and_ones(target: np.ndarray, rows: int) -> np.ndarray:
    """What belongs to one logit a row, as a vector. Raises ShapeError or DataError."""
    if target.shape not in ((rows,), (rows, 1)):
        raise ShapeError(f"y has shape {target.shape}, it must be ({rows},) or ({rows}, 1)")
    wrong = target[(target != 0) & (target != 1)]
    if wrong.size:
        raise DataError(
            f"y must be 0 or 1, the class that a row's one output is the logit of, not {wrong[0]}"
        )
    return target.reshape(-1)
