"""What ops over logits share: log Σ exp of rows, what follows from it, and shapes to try on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import OptionError, ShapeError
from noeira.ir import graph
from noeira.ir.checks import class_limit
from noeira.ir.op import IndexLimit, Op
from noeira.ir.types import TensorType, Types, computed

if TYPE_CHECKING:
    import numpy as np

# Around the width of a vector, and rows that are read once.
SHAPES = (
    *((1, 1), (7, 10), (100, 10), (40, 9), (35, 15), (18, 16), (19, 17), (17, 33), (3, 5, 127)),
    *((2, 2047), (3, 2049), (2, 4097)),
)
# Each without smoothing of the target, and with it; other reductions over some of them: rows of one
# element, shorter than a vector, as long as one, and read once.
FEW = ((1, 1), (40, 9), (18, 16), (3, 5, 127), (3, 2049))
CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    *((shape, {"smoothing": smoothing}) for shape in SHAPES for smoothing in (0.0, 0.1)),
    *((shape, {"smoothing": 0.1, "reduction": "none"}) for shape in FEW),
    *((shape, {"reduction": kind}) for shape in FEW[1:4] for kind in ("none", "sum")),
)


# What a loss over rows gives: the mean of the rows' losses, their sum, or each of them.
REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class RowLossAttrs(graph.Attrs):
    """reduction: `mean` or `sum` over the rows, or `none`: a loss for each."""

    reduction: str = "mean"

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise OptionError(f"reduction must be one of {known}, not {self.reduction!r}")

    @property
    def by_row(self) -> bool:
        """Whether there is a loss for each row."""
        return self.reduction == "none"

    def over(self, rows: int) -> str:
        """C text behind what is one number of all rows: what it is divided by."""
        return f" / {rows}" if self.reduction == "mean" else ""

    def share(self, rows: int) -> int:
        """What the cotangent of the loss is divided by to be that of a row's loss."""
        return max(rows, 1) if self.reduction == "mean" else 1


@dataclass(frozen=True)
class LogitLossAttrs(RowLossAttrs):
    """smoothing: the share of the target spread evenly over the classes."""

    smoothing: float = 0.0

    @property
    def kept(self) -> float:
        """The share that stays with the target."""
        return 1 - self.smoothing

    def even(self, classes: int) -> float:
        """The share that each class gets of the smoothing."""
        return self.smoothing / classes


class ClassNumbers(Op):
    """The parent of ops that read logits `z` and a class number for each row of them, `target`."""

    def index_limits(self, attrs: Any, operands: Types) -> dict[str, IndexLimit]:
        return {"target": class_limit(operands[self.operands.index("z")])}


class LogitOp(Op):
    """The parent of losses over logits and their gradients."""

    kind, Attrs = "row", LogitLossAttrs

    def has_totals(self, attrs: RowLossAttrs) -> bool:
        return self.totals and not attrs.by_row


class LogitLoss(LogitOp):
    """The parent of losses over logits: `loss`, a mean over rows, their sum or each row's, and
    `lse`, log Σ exp of each row, which the gradient reads.
    """

    totals = True
    operands, results = ("z", "target"), ("loss", "lse")

    def of_logits(self, attrs: RowLossAttrs, z: TensorType) -> Types:
        """The types of both results: as logits are computed in, of 16 bits in f32."""
        return (loss_type(attrs, z), TensorType(computed(z.dtype), z.shape[:-1]))


def loss_type(attrs: RowLossAttrs, z: TensorType) -> TensorType:
    """The type of the loss of logits, and of its cotangent."""
    return TensorType(computed(z.dtype), z.shape[:-1] if attrs.by_row else ())


def check_gradient_operands(
    name: str, attrs: RowLossAttrs, z: TensorType, *lse: TensorType, d_loss: TensorType
) -> None:
    """Raises ShapeError if what the gradient of a loss reads does not go with the logits."""
    rows = TensorType(computed(z.dtype), z.shape[:-1])
    if any(one != rows for one in lse) or d_loss != loss_type(attrs, z):
        raise ShapeError(f"{name}: lse {lse[0]} and d_loss {d_loss} do not fit {z}")


def reduced(attrs: RowLossAttrs, rows: np.ndarray) -> np.ndarray:
    """The loss of the losses of rows."""
    if attrs.by_row:
        return rows
    return rows.mean() if attrs.reduction == "mean" else rows.sum()


def log_sum_exp(z: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis, shifted by the maximum.

    A row with a NaN, with +∞ or of nothing but -∞ gives NaN, as PyTorch's `log_softmax` does.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        high = z.max(-1, keepdims=True)
        return (np.log(np.exp(z - high).sum(-1, keepdims=True)) + high)[..., 0]


def softmax_of(z: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """exp(z - lse): the softmax, given log Σ exp of the rows."""
    import numpy as np

    with np.errstate(all="ignore"):
        return np.exp(z - lse[..., None])


def per_row(attrs: RowLossAttrs, d_loss: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """The cotangent of each row's loss, as [..., 1]."""
    each = (d_loss / attrs.share(lse.size)).astype(lse.dtype)
    return each.reshape((*each.shape, 1))
