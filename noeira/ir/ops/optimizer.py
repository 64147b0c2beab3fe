"""What optimizers have in common: each states its formula once, as scalar expressions, in the file
of its name; all are one kind of kernel over all parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import VerifyError
from noeira.ir.bounded import NOT_NEGATIVE, Bounded
from noeira.ir.layouts import Range
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.scalar import Expr
from noeira.ir.states import CLIP, LEARNING_RATE, STEP


@dataclass(frozen=True)
class OptimizerOptions(Bounded):
    """The parent of the options of optimizers: those of ops, and of what users write."""


@dataclass(frozen=True)
class OptimizerAttrs(OptimizerOptions):
    """The parent of the attributes of optimizers' nodes.

    lr_factor: what the learning rate is multiplied by. ranges: what some parameters have in place
    of these attributes; with any, parameters in none of them stay as they are.
    """

    lr_factor: float = 1.0
    ranges: tuple[Range, ...] = ()
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"lr_factor": NOT_NEGATIVE}


class Optimizer(FlatUpdate):
    """The parent of the optimizers: operands p, g, lr, step, ok, then the moments, then `clip`.

    moments: the flat states that it keeps beside the parameters, which begin as zeros; `m` of the
    op `adam` is the state `%adam.m`. clip, which may be left out: a factor on all gradients, or one
    for each range; clip·g stands for g in all that follows. `Attrs` derives from OptimizerAttrs. A
    subclass defines `update` over the parameter p, its gradient g, the learning rate lr, the number
    t of updates so far, plus 1, and the moments.
    """

    scalars = (LEARNING_RATE, STEP)
    factors = optional = (CLIP,)
    varying = ("lr_factor", "weight_decay")
    moments: ClassVar[tuple[str, ...]] = ()
    Attrs = OptimizerAttrs

    def __init_subclass__(cls) -> None:
        cls.operands = ("p", "g", LEARNING_RATE, STEP, "ok", *cls.moments, CLIP)
        cls.results = ("p", *cls.moments)
        if not issubclass(cls.Attrs, OptimizerAttrs):
            raise VerifyError(f"{cls.__name__}: its Attrs must derive from OptimizerAttrs")
        if taken := {"t", *cls.operands[:5], CLIP}.intersection(cls.moments):
            raise VerifyError(f"{cls.__name__}: a moment cannot be called {min(taken)}")
        super().__init_subclass__()

    def kept(self, attrs: Any) -> tuple[str, ...]:
        """The moments that there are with these attributes."""
        return self.moments

    def given_operands(self, attrs: Any) -> tuple[str, ...]:
        return (*self.operands[:5], *self.kept(attrs), CLIP)

    def values(self, attrs: Any, given: Collection[str]) -> dict[str, Expr]:
        found = super().values(attrs, given)
        lr, step = found.pop(LEARNING_RATE), found.pop(STEP)
        if CLIP in found:
            found["g"] = found.pop(CLIP) * found["g"]
        return found | {"lr": lr * attrs.lr_factor, "t": step + 1.0}
