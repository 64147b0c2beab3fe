"""What ops over logits share: log Σ exp of rows, what follows from it, and shapes to try on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
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
# Each without smoothing of the target, and with it.
CASES = tuple((shape, smoothing) for shape in SHAPES for smoothing in (0.0, 0.1))


@dataclass(frozen=True)
class SmoothingAttrs(graph.Attrs):
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


class LogitLoss(Op):
    """The parent of losses over logits: `loss`, a mean over rows, and `lse`, log Σ exp of each row,
    which the gradient reads.
    """

    kind, totals, Attrs = "row", True, SmoothingAttrs
    operands, results = ("z", "target"), ("loss", "lse")

    def of_logits(self, z: TensorType) -> Types:
        """The types of both results: as logits are computed in, of 16 bits in f32."""
        dtype = computed(z.dtype)
        return (TensorType(dtype, ()), TensorType(dtype, z.shape[:-1]))


def check_gradient_operands(name: str, z: TensorType, *lse: TensorType, d_loss: TensorType) -> None:
    """Raises ShapeError if what the gradient of a loss reads does not go with the logits."""
    dtype = computed(z.dtype)
    rows = TensorType(dtype, z.shape[:-1])
    if any(one != rows for one in lse) or d_loss != TensorType(dtype, ()):
        raise ShapeError(f"{name}: lse {lse[0]} and d_loss {d_loss} do not fit {z}")


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


def per_row(d_loss: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """The cotangent of each row's share in the mean over the rows."""
    return (d_loss / max(lse.size, 1)).astype(lse.dtype)
