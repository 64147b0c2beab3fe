"""Optimizers: each is one flat kernel over all parameters, and leaves them as they were if the step
is not ok.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, OptionError, ShapeError
from noeira.ir import graph
from noeira.ir.checks import expect
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.states import COUNTER, FIRST_MOMENT, FLAG, SECOND_MOMENT
from noeira.ir.types import Range, TensorType

if TYPE_CHECKING:
    import numpy as np

# For samples: more ranges of decayed elements than a kernel compares one by one.
MANY_RANGES = tuple(Range(n, n + 7) for n in range(40, 500, 20))


def check_flat(
    name: str, step: TensorType, lr: TensorType, ok: TensorType, *flat: TensorType
) -> None:
    """Raises ShapeError or DtypeError if the operands of an optimizer do not go together."""
    first = flat[0]
    if len(first.shape) != 1 or any(t != first for t in flat):
        raise ShapeError(f"{name}: {', '.join(map(str, flat))}: must be flat and of one type")
    if not first.is_float or lr != TensorType(first.dtype, ()):
        raise DtypeError(f"{name}: lr {lr} must be {first.dtype}[]")
    expect(name, "step", step, COUNTER)
    expect(name, "ok", ok, FLAG)


def check_decay(name: str, ranges: tuple[Range, ...], p: TensorType) -> None:
    """Raises ShapeError if the ranges that weight decay applies to are not in order inside p."""
    end = 0
    for span in ranges:
        if not end <= span.start < span.stop <= p.size:
            raise ShapeError(f"{name}: decay {span} is not in order, or not inside {p}")
        end = span.stop


def decay_mask(ranges: tuple[Range, ...], p: np.ndarray) -> np.ndarray:
    """1 where weight decay applies."""
    import numpy as np

    mask = np.zeros_like(p)
    for span in ranges:
        mask[span.start : span.stop] = 1
    return mask


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
            if field.type == "bool" and not isinstance(value, bool):
                raise self.out_of_range(field.name, "True or False")
            if field.type == "float":
                if not is_number(value):
                    raise self.out_of_range(field.name, "a finite number")
                object.__setattr__(self, field.name, float(value))
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


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        return False
    return math.isfinite(value)


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
class SGDAttrs(SGDOptions):
    """decay: the elements that weight_decay applies to."""

    decay: tuple[Range, ...] = ()


class Optimizer(Op):
    """The parent of the optimizers: operands p, g, lr, step, ok, then the moments."""

    def moments(self, attrs: Any) -> tuple[str, ...]:
        """The flat states that it needs beside the parameters."""
        return ()

    def may_overwrite(self, attrs: Any, *types: TensorType) -> dict[int, tuple[int, ...]]:
        places = [self.operands.index(name) for name in self.results]
        return {result: (at,) for result, at in enumerate(places) if at < len(types)}


class SGD(Optimizer):
    """Stochastic gradient descent as in PyTorch.

    g' = g + weight_decay·p; with momentum: m' = momentum·m + (1 - dampening)·g' (m' = g' at the
    first update), and g' becomes g' + momentum·m' (Nesterov) or m'; p' = p - lr·g'. p [N], g [N],
    lr [], step i64[], ok bool[], m [N] (with momentum) -> p' [N] (, m' [N])
    """

    name, Attrs = "sgd", SGDAttrs
    operands, results = ("p", "g", "lr", "step", "ok", "m"), ("p", "m")

    def moments(self, attrs: SGDAttrs) -> tuple[str, ...]:
        return (FIRST_MOMENT,) if attrs.momentum else ()

    def infer(
        self,
        attrs: SGDAttrs,
        p: TensorType,
        g: TensorType,
        lr: TensorType,
        step: TensorType,
        ok: TensorType,
        m: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        moments = () if m is None else (m,)
        check_flat("sgd", step, lr, ok, p, g, *moments)
        check_decay("sgd", attrs.decay, p)
        if len(moments) != bool(attrs.momentum):
            raise ShapeError("sgd: the operand m goes with a momentum, and only with one")
        return (p, *moments)

    def reference(
        self,
        attrs: SGDAttrs,
        p: np.ndarray,
        g: np.ndarray,
        lr: np.ndarray,
        step: np.ndarray,
        ok: np.ndarray,
        *m: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        if not ok:
            return (p, *m)
        number = p.dtype.type
        if attrs.weight_decay:
            g = g + number(attrs.weight_decay) * decay_mask(attrs.decay, p) * p
        if not m:
            return (p - lr * g,)
        moved = g if step == 0 else number(attrs.momentum) * m[0] + number(1 - attrs.dampening) * g
        change = g + number(attrs.momentum) * moved if attrs.nesterov else moved
        return (p - lr * change, moved)

    def flops(self, attrs: SGDAttrs, *types: TensorType) -> int:
        return types[0].size * (2 + 3 * bool(attrs.momentum) + 2 * bool(attrs.weight_decay))

    def samples(self) -> tuple[Sample, ...]:
        def sample(size: int, **attrs: Any) -> Sample:
            flat, scalar = Draw(f32(size)), Draw(f32())
            rest = (scalar, Draw(COUNTER, "counter"), Draw(FLAG, "true"))
            moments = (flat,) if attrs.get("momentum") else ()
            return Sample((flat, flat, *rest, *moments), attrs, ())

        decay = (Range(0, 64),)
        return (
            sample(1),
            sample(100, weight_decay=0.1, decay=decay),
            sample(257, momentum=0.9),
            sample(128, momentum=0.9, dampening=0.1, weight_decay=0.1, decay=decay),
            sample(100, momentum=0.9, nesterov=True),
            sample(538, momentum=0.9, weight_decay=0.1, decay=MANY_RANGES),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        flat, lr = f32(8), f32()
        return (
            BadSample((flat, flat, lr, COUNTER, FLAG), "goes with a momentum", {"momentum": 0.9}),
            BadSample((flat, f32(9), lr, COUNTER, FLAG), "of one type"),
            BadSample((flat, flat, lr, COUNTER, FLAG), "decay 4:9 is", {"decay": (Range(4, 9),)}),
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
class AdamAttrs(AdamOptions):
    """decay: the elements that weight_decay acts on."""

    decay: tuple[Range, ...] = ()


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014), and AdamW (Loshchilov and Hutter 2017) with `decoupled`.

    t = step + 1; decoupled: p -= lr·weight_decay·p, else g += weight_decay·p;
    m' = β₁·m + (1 - β₁)·g; v' = β₂·v + (1 - β₂)·g²; p' = p - lr/(1 - β₁ᵗ) · m' / (√v'/√(1 - β₂ᵗ) +
    eps). p [N], g [N], lr [], step i64[], ok bool[], m [N], v [N] -> p' [N], m' [N], v' [N]
    """

    name, Attrs = "adam", AdamAttrs
    operands = ("p", "g", "lr", "step", "ok", "m", "v")
    results = ("p", "m", "v")

    def moments(self, attrs: AdamAttrs) -> tuple[str, ...]:
        return (FIRST_MOMENT, SECOND_MOMENT)

    def infer(
        self,
        attrs: AdamAttrs,
        p: TensorType,
        g: TensorType,
        lr: TensorType,
        step: TensorType,
        ok: TensorType,
        m: TensorType,
        v: TensorType,
    ) -> tuple[TensorType, ...]:
        check_flat("adam", step, lr, ok, p, g, m, v)
        check_decay("adam", attrs.decay, p)
        return (p, m, v)

    def reference(
        self,
        attrs: AdamAttrs,
        p: np.ndarray,
        g: np.ndarray,
        lr: np.ndarray,
        step: np.ndarray,
        ok: np.ndarray,
        m: np.ndarray,
        v: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        if not ok:
            return (p, m, v)
        number = p.dtype.type
        if attrs.weight_decay:
            shrink = decay_mask(attrs.decay, p) * number(attrs.weight_decay)
            if attrs.decoupled:
                p = p - lr * shrink * p
            else:
                g = g + shrink * p
        t = int(step) + 1
        m = number(attrs.beta1) * m + number(1 - attrs.beta1) * g
        v = number(attrs.beta2) * v + number(1 - attrs.beta2) * g * g
        rate = number(float(lr) / (1 - attrs.beta1**t))
        root = number(1 / np.sqrt(1 - attrs.beta2**t))
        return (p - rate * m / (np.sqrt(v) * root + number(attrs.eps)), m, v)

    def flops(self, attrs: AdamAttrs, *types: TensorType) -> int:
        return types[0].size * (12 + 2 * bool(attrs.weight_decay))

    def samples(self) -> tuple[Sample, ...]:
        def sample(size: int, **attrs: Any) -> Sample:
            flat, scalar = Draw(f32(size)), Draw(f32())
            second = Draw(f32(size), "positive")
            rest = (scalar, Draw(COUNTER, "counter"), Draw(FLAG, "true"))
            return Sample((flat, flat, *rest, flat, second), attrs, ())

        decay = (Range(0, 64),)
        return (
            sample(1),
            sample(257, beta1=0.8, beta2=0.99, eps=1e-6),
            sample(100, weight_decay=0.1, decay=decay),
            sample(128, weight_decay=0.1, decoupled=True, decay=decay),
            sample(538, weight_decay=0.1, decay=MANY_RANGES),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        flat, lr = f32(8), TensorType("f64", ())
        rate, outside = f32(), (Range(0, 4), Range(3, 8))
        return (
            BadSample((flat, flat, lr, COUNTER, FLAG, flat, flat), "must be f32[]"),
            BadSample((flat, flat, rate, COUNTER, FLAG, flat, flat), "3:8 is", {"decay": outside}),
        )
