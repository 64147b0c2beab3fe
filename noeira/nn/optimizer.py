"""Optimizers: plain frozen values that say which update a training step ends with. Their options,
with defaults and bounds, are those of the op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import OptionError
from noeira.ir.bounded import NOT_NEGATIVE
from noeira.ir.op import op
from noeira.ir.ops.adagrad import AdagradOptions
from noeira.ir.ops.adam import AdamOptions
from noeira.ir.ops.laprop import LaPropOptions
from noeira.ir.ops.lion import LionOptions
from noeira.ir.ops.optimizer import Optimizer as OptimizerOp
from noeira.ir.ops.optimizer import OptimizerOptions
from noeira.ir.ops.rmsprop import RMSpropOptions
from noeira.ir.ops.sgd import SGDOptions
from noeira.ir.states import STEP, optimizer_state
from noeira.nn.core.init import written_out
from noeira.nn.core.option_value import OptionValue

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "LaProp", "Lion", "Optimizer", "RMSprop"]


@dataclass(frozen=True)
class Optimizer(OptionValue, OptimizerOptions):
    """The parent of the optimizers. p: a parameter, g: its gradient, t: the number of updates so
    far, plus 1.

    lr: the learning rate. weight_decay acts on weights only, not on biases.
    """

    only: ClassVar[str] = "an optimizer is given options only, no parameters"
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"lr": NOT_NEGATIVE}
    lr: float = 1e-3

    def options(self) -> dict[str, Any]:
        """The attributes of the operation: every field but the learning rate, a state."""
        return {name: value for name, value in super().options().items() if name != "lr"}

    def states(self) -> frozenset[str]:
        """The names of what its operation may keep beside the parameters, and of its count."""
        rule = op(self.op)
        kept = rule.moments if isinstance(rule, OptimizerOp) else ()
        return frozenset(optimizer_state(self.op, name) for name in (*kept, STEP))


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


@dataclass(frozen=True)
class RMSprop(RMSpropOptions, Optimizer):
    """RMSprop (Hinton 2012), as PyTorch's RMSprop.

        g += weight_decay · p                               (weights)
        v = alpha · v + (1 − alpha) · g²
        u = g / (√v + eps)
        m = momentum · m + u ;  u = m                       (with momentum)
        p −= lr · u

    centered: mean = alpha · mean + (1 − alpha) · g, and √(v − mean²) stands for √v (Graves 2013).
    """

    op: ClassVar[str] = "rmsprop"
    lr: float = 1e-2


@dataclass(frozen=True)
class Lion(LionOptions, Optimizer):
    """Lion (Chen et al. 2023): every step is as long as lr.

    p −= lr · (sign(beta1 · m + (1 − beta1) · g) + weight_decay · p)    (weight_decay: weights)
    m = beta2 · m + (1 − beta2) · g
    """

    op: ClassVar[str] = "lion"
    lr: float = 1e-4


@dataclass(frozen=True)
class Adagrad(AdagradOptions, Optimizer):
    """Adagrad (Duchi et al. 2011), as PyTorch's Adagrad.

    g += weight_decay · p                                   (weights)
    v += g²
    p −= lr / (1 + (t − 1) · lr_decay) · g / (√v + eps)
    """

    op: ClassVar[str] = "adagrad"
    lr: float = 1e-2


@dataclass(frozen=True)
class LaProp(LaPropOptions, Optimizer):
    """LaProp (Ziyin et al. 2020): the gradient is normalised, then averaged, as in DreamerV3.

    v = beta2 · v + (1 − beta2) · g²
    m = beta1 · m + (1 − beta1) · g / (√(v / (1 − beta2^t)) + eps)
    p −= lr · (m / (1 − beta1^t) + weight_decay · p)        (weight_decay: weights)
    """

    op: ClassVar[str] = "laprop"
    lr: float = 4e-5


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
