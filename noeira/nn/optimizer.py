"""Optimizers: plain frozen values that say which update a training step ends with. Their options,
with defaults and bounds, are those of the op.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import OptionError
from noeira.ir.bounded import NOT_NEGATIVE
from noeira.ir.op import op
from noeira.ir.ops.adam import AdamOptions
from noeira.ir.ops.optimizer import Optimizer as OptimizerOp
from noeira.ir.ops.optimizer import OptimizerOptions
from noeira.ir.ops.sgd import SGDOptions
from noeira.ir.states import STEP, optimizer_state
from noeira.ir.types import DTYPES
from noeira.nn.core.init import written_out

if TYPE_CHECKING:
    from typing import Self

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


@dataclass(frozen=True)
class Optimizer(OptimizerOptions):
    """The parent of the optimizers. p: a parameter, g: its gradient, t: the number of updates so
    far, plus 1.

    op: the operation that does the update. lr: the learning rate. weight_decay acts on weights
    only, not on biases.
    """

    op: ClassVar[str] = ""
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"lr": NOT_NEGATIVE}
    lr: float = 1e-3

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Raises OptionError for an option that there is not, or that is given twice."""
        names = [f.name for f in fields(cls)]
        if len(args) > len(names):
            raise OptionError(
                f"{cls.__name__}: {len(args)} options are too many; it has {', '.join(names)}"
            )
        for name in options:
            if name not in names:
                raise unknown_option(cls, name, names)
            if name in names[: len(args)]:
                raise OptionError(
                    f"{cls.__name__}: {name} is given twice, by its place and by its name; "
                    f"an optimizer is given options only, no parameters"
                )
        return super().__new__(cls)

    def options(self) -> dict[str, Any]:
        """The attributes of the operation: every field but the learning rate, a state."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "lr"}

    def states(self) -> frozenset[str]:
        """The names of what its operation may keep beside the parameters, and of its count."""
        rule = op(self.op)
        kept = rule.moments if isinstance(rule, OptimizerOp) else ()
        return frozenset(optimizer_state(self.op, name) for name in (*kept, STEP))

    def check_fits(self, dtype: str) -> None:
        """Raises OptionError for a number that is too large for the dtype of the network."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not DTYPES[dtype].fits(value):
                raise OptionError(
                    f"{self.label}: {field.name} is {value!r}, which does not fit in {dtype}, the "
                    "dtype of the network"
                )


@dataclass(frozen=True)
class SGD(SGDOptions, Optimizer):
    """Stochastic gradient descent, as PyTorch's SGD.

    g += weight_decay · p                               (weights)
    m = momentum · m + (1 − dampening) · g              (m = g at the first update)
    g = g + momentum · m  (nesterov)   or  m            (with momentum)
    p −= lr · g
    """

    op: ClassVar[str] = "sgd"
    lr: float = 1e-2


@dataclass(frozen=True)
class Adam(AdamOptions, Optimizer):
    """Adam (Kingma and Ba 2015), as PyTorch's Adam.

        g += weight_decay · p                               (weights; not if decoupled)
        m = beta1 · m + (1 − beta1) · g ;  v = beta2 · v + (1 − beta2) · g²
        p −= lr · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + eps)

    decoupled: p −= lr · weight_decay · p in place of the first line (Loshchilov and Hutter 2019).
    """

    op: ClassVar[str] = "adam"
    lr: float = 1e-3


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, 0.01 by default."""

    weight_decay: float = 1e-2
    decoupled: bool = True


def unknown_option(cls: type[Optimizer], name: str, known: list[str]) -> OptionError:
    """The error for an option that there is not; `learning_rate` is near to `lr`."""
    initials = "".join(word[:1] for word in name.lower().split("_"))
    near = [initials] if initials in known else difflib.get_close_matches(name.lower(), known, n=2)
    hint = f"; did you mean {' or '.join(n for n in known if n in near)}?" if near else ""
    return OptionError(f"{cls.__name__} has no option {name}; it has {', '.join(known)}{hint}")


def optimizer(value: Any) -> Optimizer:
    """What a user gave as the optimizer: a value, or the class for its defaults.

    Raises OptionError.
    """
    if isinstance(value, Optimizer) and value.op:
        return value
    if isinstance(value, type) and issubclass(value, Optimizer) and value.op:
        return value()
    known = [name for name in __all__ if name != Optimizer.__name__]
    raise OptionError(
        f"optimizer must be one such as Adam(lr=1e-3), not {value!r}"
        f"{written_out('optimizer', value, known)}; there are {', '.join(known)}"
    )
