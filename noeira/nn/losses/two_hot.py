"""TwoHot: regression as classification over bins."""

from __future__ import annotations

from typing import Any

from noeira.ir.graph import Value
from noeira.nn.core.slots import flag, number
from noeira.nn.losses.classes import RowLoss
from noeira.nn.primitives.bins import check_bounds, need_bins

__all__ = ["TwoHot"]


class TwoHot(RowLoss):
    """mean over rows of logsumexp(x) − Σ_c t_c x_c, t the two-hot encoding of a number, see
    `TwoHotEncode`: (*, BINS), (*) -> ().

    The prediction x are logits, one for each bin from `low` to `high`: `TwoHot.of(low=-20.0,
    high=20.0, symlog=True)`, and `TwoHotDecode` with the same bins reads the number from them.
    Its gradient is that of a cross-entropy, so its size does not grow with that of the targets
    (Bellemare et al. 2017; Schrittwieser et al. 2019; with symlog Hafner et al. 2023). Targets
    beyond the bins count as the last of them; a NaN makes the loss NaN.
    """

    LOW = number()
    HIGH = number()
    SYMLOG = flag(False)
    signature = "(*, BINS), (*) -> ()"
    op = "two_hot"

    @classmethod
    def check(cls) -> None:
        super().check()
        check_bounds(cls, cls.LOW, cls.HIGH)

    @classmethod
    def check_classes(cls, logits: Value) -> None:
        need_bins(cls, logits)

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"low": cls.LOW, "high": cls.HIGH, "symlog": cls.SYMLOG}
