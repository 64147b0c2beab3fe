"""Optimizers: plain frozen values that say which update a training step ends with."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import CompositionError

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Optimizer:
    """The parent of the optimizers. p: a parameter, g: its gradient, t: the number of updates so
    far, plus 1.

    op: the operation that does the update. lr: the learning rate. weight_decay acts on weights
    only, not on biases.
    """

    op: ClassVar[str] = ""
    lr: float = 1e-3

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Raises CompositionError for an option that there is not, or that is given twice."""
        names = [f.name for f in fields(cls)]
        if len(args) > len(names):
            raise CompositionError(
                f"{cls.__name__}: {len(args)} options are too many; it has {', '.join(names)}"
            )
        for name in options:
            if name not in names:
                raise unknown_option(cls, name, names)
            if name in names[: len(args)]:
                raise CompositionError(
                    f"{cls.__name__}: {name} is given twice, by its place and by its name; "
                    f"an optimizer is given options only, no parameters"
                )
        return super().__new__(cls)

    def options(self) -> dict[str, Any]:
        """The attributes of the operation: every field but the learning rate, a state."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "lr"}

    def __post_init__(self) -> None:
        """Raises CompositionError for a value out of its range."""
        for field in fields(self):
            if field.type != "bool":
                self.number(field.name)
        if self.lr < 0:
            raise self.out_of_range("lr", "0 or greater")

    def number(self, name: str) -> None:
        """Make the field a float. Raises CompositionError if it is no finite number."""
        value = getattr(self, name)
        if (
            isinstance(value, (bool, str))
            or not hasattr(value, "__float__")
            or not math.isfinite(value)
        ):
            raise self.out_of_range(name, "a finite number")
        object.__setattr__(self, name, float(value))

    def between(self, name: str, low: float, high: float = math.inf) -> None:
        """Raises CompositionError unless low <= field < high."""
        if not low <= getattr(self, name) < high:
            wanted = (
                f"{low:g} or greater"
                if high == math.inf
                else f"at least {low:g} and less than {high:g}"
            )
            raise self.out_of_range(name, wanted)

    def out_of_range(self, name: str, wanted: str) -> CompositionError:
        """The error for a field that is not what it must be."""
        return CompositionError(
            f"{type(self).__name__}: {name} must be {wanted}, not {getattr(self, name)!r}"
        )


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, as PyTorch's SGD.

    g += weight_decay · p                               (weights)
    m = momentum · m + (1 − dampening) · g              (m = g at the first update)
    g = g + momentum · m  (nesterov)   or  m            (with momentum)
    p −= lr · g
    """

    op: ClassVar[str] = "sgd"
    lr: float = 1e-2
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.between("momentum", 0.0)
        self.between("dampening", 0.0)
        self.between("weight_decay", 0.0)
        if not isinstance(self.nesterov, bool):
            raise self.out_of_range("nesterov", "True or False")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise CompositionError("SGD: nesterov needs momentum greater than 0 and dampening 0")


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), as PyTorch's Adam.

        g += weight_decay · p                               (weights; not if decoupled)
        m = beta1 · m + (1 − beta1) · g ;  v = beta2 · v + (1 − beta2) · g²
        p −= lr · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + eps)

    decoupled: p −= lr · weight_decay · p in place of the first line (Loshchilov and Hutter 2019).
    """

    op: ClassVar[str] = "adam"
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.between("beta1", 0.0, 1.0)
        self.between("beta2", 0.0, 1.0)
        self.between("eps", 0.0)
        self.between("weight_decay", 0.0)
        if not isinstance(self.decoupled, bool):
            raise self.out_of_range("decoupled", "True or False")


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, 0.01 by default."""

    weight_decay: float = 1e-2
    decoupled: bool = True


def unknown_option(cls: type[Optimizer], name: str, known: list[str]) -> CompositionError:
    """The error for an option that there is not; `learning_rate` is near to `lr`."""
    initials = "".join(word[:1] for word in name.lower().split("_"))
    near = [initials] if initials in known else difflib.get_close_matches(name.lower(), known, n=2)
    hint = f"; did you mean {' or '.join(n for n in known if n in near)}?" if near else ""
    return CompositionError(f"{cls.__name__} has no option {name}; it has {', '.join(known)}{hint}")


def optimizer(value: Any) -> Optimizer:
    """What a user gave as the optimizer: a value, or the class for its defaults.

    Raises CompositionError.
    """
    if isinstance(value, Optimizer) and value.op:
        return value
    if isinstance(value, type) and issubclass(value, Optimizer) and value.op:
        return value()
    raise CompositionError(
        f"optimizer must be one such as Adam(lr=1e-3), not {value!r}; there are SGD, Adam, AdamW"
    )
