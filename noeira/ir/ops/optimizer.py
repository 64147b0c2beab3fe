"""Optimizers: each states its formula once, as scalar expressions; all are one kind of kernel over
all parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from noeira.errors import OptionError, VerifyError
from noeira.ir import graph
from noeira.ir.numbers import finite_number
from noeira.ir.ops.flat_update import FEW_RANGES, FlatUpdate
from noeira.ir.samples import Sample
from noeira.ir.scalar import Expr, call, select
from noeira.ir.states import FIRST_MOMENT, LEARNING_RATE, SECOND_MOMENT, STEP
from noeira.ir.types import Range

NOT_NEGATIVE = (0.0, math.inf)
BELOW_ONE = (0.0, 1.0)


@dataclass(frozen=True)
class OptimizerOptions(graph.Attrs):
    """The parent of the options of optimizers: those of an op, and of the values that users write.

    bounds: option -> (low, high); it must be at least low and less than high.
    """

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        """Raises OptionError for a value out of its range."""
        bounds = dict[str, tuple[float, float]]()
        for cls in reversed(type(self).__mro__):
            bounds |= vars(cls).get("bounds", {})
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("bool", bool) and not isinstance(value, bool):
                raise self.out_of_range(field.name, "True or False")
            if field.type in ("float", float):
                number = finite_number(value)
                if number is None:
                    raise self.out_of_range(field.name, "a finite number")
                object.__setattr__(self, field.name, number)
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) < high:
                least = f"at least {low:g} and less than {high:g}"
                raise self.out_of_range(name, least if high < math.inf else f"{low:g} or greater")

    def out_of_range(self, name: str, wanted: str) -> OptionError:
        """The error for an option that is not what it must be."""
        return OptionError(f"{self.label}: {name} must be {wanted}, not {getattr(self, name)!r}")

    @property
    def label(self) -> str:
        """Whose options these are, as messages name it."""
        return type(self).__name__.removesuffix("Attrs")


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
    """The parent of the optimizers: operands p, g, lr, step, ok, then the moments.

    moments: the flat states that it keeps beside the parameters, which begin as zeros; `m` of the
    op `adam` is the state `%adam.m`. `Attrs` derives from OptimizerAttrs. A subclass defines
    `update` over the parameter p, its gradient g, the learning rate lr, the number t of updates so
    far, plus 1, and the moments.
    """

    scalars = (LEARNING_RATE, STEP)
    varying = ("lr_factor", "weight_decay")
    moments: ClassVar[tuple[str, ...]] = ()
    Attrs = OptimizerAttrs

    def __init_subclass__(cls) -> None:
        cls.operands = ("p", "g", LEARNING_RATE, STEP, "ok", *cls.moments)
        cls.results = ("p", *cls.moments)
        if not issubclass(cls.Attrs, OptimizerAttrs):
            raise VerifyError(f"{cls.__name__}: its Attrs must derive from OptimizerAttrs")
        if taken := {"t", *cls.operands[:5]}.intersection(cls.moments):
            raise VerifyError(f"{cls.__name__}: a moment cannot be called {min(taken)}")
        super().__init_subclass__()

    def kept(self, attrs: Any) -> tuple[str, ...]:
        """The moments that there are with these attributes."""
        return self.moments

    def given_operands(self, attrs: Any) -> tuple[str, ...]:
        return (*self.operands[:5], *self.kept(attrs))

    def values(self, attrs: Any) -> dict[str, Expr]:
        found = super().values(attrs)
        lr, step = found.pop(LEARNING_RATE), found.pop(STEP)
        return found | {"lr": lr * attrs.lr_factor, "t": step + 1.0}


@dataclass(frozen=True)
class SGDOptions(OptimizerOptions):
    """What stochastic gradient descent can be told."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "momentum": BELOW_ONE,
        "dampening": BELOW_ONE,
        "weight_decay": NOT_NEGATIVE,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise OptionError(
                f"{self.label}: nesterov needs momentum greater than 0 and dampening 0"
            )
        if self.dampening and self.momentum == 0:
            raise OptionError(f"{self.label}: dampening needs momentum greater than 0")


@dataclass(frozen=True)
class SGDAttrs(OptimizerAttrs, SGDOptions):
    """The options, and what parameters have of their own."""


class SGD(Optimizer):
    """Stochastic gradient descent as in PyTorch.

    g' = g + weight_decay·p; with momentum: m' = momentum·m + (1 - dampening)·g' (m' = g' at the
    first update), and g' becomes g' + momentum·m' (Nesterov) or m'; p' = p - lr·g'. p [N], g [N],
    lr [], step i64[], ok bool[], m [N] (with momentum) -> p' [N] (, m' [N])
    """

    name, Attrs = "sgd", SGDAttrs
    moments = (FIRST_MOMENT,)

    def kept(self, attrs: SGDAttrs) -> tuple[str, ...]:
        return self.moments if attrs.momentum else ()

    def update(
        self, attrs: SGDAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr | None = None
    ) -> dict[str, Expr]:
        g = g + attrs.weight_decay * p
        if m is None:
            return {"p": p - lr * g}
        first = call("eq", t, 1)
        kept, taken = select(first, 0, attrs.momentum), select(first, 1, 1 - attrs.dampening)
        m = kept * m + taken * g
        change = g + attrs.momentum * m if attrs.nesterov else m
        return {"p": p - lr * change, "m": m}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (
            *super().samples(),
            self.sample(100, weight_decay=0.1),
            self.sample(257, momentum=0.9),
            self.sample(257, momentum=0.9, dampening=0.1, weight_decay=0.1, ranges=table),
            self.sample(100, momentum=0.9, nesterov=True),
        )


@dataclass(frozen=True)
class AdamOptions(OptimizerOptions):
    """What Adam can be told. decoupled: weight decay acts on the parameters (AdamW), not on the
    gradient.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "beta1": BELOW_ONE,
        "beta2": BELOW_ONE,
        "eps": NOT_NEGATIVE,
        "weight_decay": NOT_NEGATIVE,
    }


@dataclass(frozen=True)
class AdamAttrs(OptimizerAttrs, AdamOptions):
    """The options, and what parameters have of their own."""


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014), and AdamW (Loshchilov and Hutter 2017) with `decoupled`.

    t = step + 1; decoupled: p -= lr·weight_decay·p, else g += weight_decay·p;
    m' = β₁·m + (1 - β₁)·g; v' = β₂·v + (1 - β₂)·g²; p' = p - lr/(1 - β₁ᵗ) · m' / (√v'/√(1 - β₂ᵗ) +
    eps). p [N], g [N], lr [], step i64[], ok bool[], m [N], v [N] -> p' [N], m' [N], v' [N]
    """

    name, Attrs = "adam", AdamAttrs
    moments, positive = (FIRST_MOMENT, SECOND_MOMENT), (SECOND_MOMENT,)

    def update(
        self, attrs: AdamAttrs, p: Expr, g: Expr, lr: Expr, t: Expr, m: Expr, v: Expr
    ) -> dict[str, Expr]:
        if attrs.decoupled:
            p = p - lr * attrs.weight_decay * p
        else:
            g = g + attrs.weight_decay * p
        m = attrs.beta1 * m + (1 - attrs.beta1) * g
        v = attrs.beta2 * v + (1 - attrs.beta2) * g * g
        rate = lr / (1 - call("pow", attrs.beta1, t))
        root = 1 / call("sqrt", 1 - call("pow", attrs.beta2, t))
        return {"p": p - rate * m / (call("sqrt", v) * root + attrs.eps), "m": m, "v": v}

    def samples(self) -> tuple[Sample, ...]:
        table = self.table(FEW_RANGES)
        return (
            *super().samples(),
            self.sample(257, beta1=0.8, beta2=0.99, eps=1e-6),
            self.sample(100, weight_decay=0.1),
            self.sample(257, weight_decay=0.1, decoupled=True, ranges=table),
        )
