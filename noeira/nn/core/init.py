"""Initialisers: how weights and biases begin, as a distribution of the number of inputs and
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from noeira.errors import OptionError
from noeira.ir.numbers import real_number
from noeira.ir.random import Distribution, zero

__all__ = [
    "Deterministic",
    "Distribution",
    "Initializer",
    "Kaiming",
    "KaimingNormal",
    "Normal",
    "ScaledKaiming",
    "TruncNormalIn",
    "Xavier",
    "Zero",
]


@dataclass(frozen=True, repr=False)
class Initializer:
    """How the parameters of a network begin.

    `Kaiming` and `Kaiming()` mean the same; `Normal[0.0, 0.02]` has parameters.
    """

    def __class_getitem__(cls, args: Any) -> Any:
        """The initialiser with its parameters. Raises OptionError."""
        values = args if isinstance(args, tuple) else (args,)
        needed = [field.name for field in fields(cls)]
        if len(values) != len(needed):
            raise OptionError(
                f"{cls.__name__}: write {cls.__name__}[{', '.join(needed)}]"
                if needed
                else f"{cls.__name__} takes no parameters: write {cls.__name__}"
            )
        return cls(*values)

    def __repr__(self) -> str:
        values = ", ".join(repr(getattr(self, field.name)) for field in fields(self))
        return f"{type(self).__name__}[{values}]" if values else type(self).__name__

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        """The distribution of a weight whose elements serve fan_in inputs and fan_out outputs."""
        raise NotImplementedError(f"{type(self).__name__}.weight")

    def bias(self) -> Distribution:
        """The distribution of a bias: 0."""
        return zero()


@dataclass(frozen=True, repr=False)
class Kaiming(Initializer):
    """U(−b, b), b = √(6 / fan_in) (He et al. 2015, for ReLU)."""

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return uniform(math.sqrt(6.0 / fan_in))


@dataclass(frozen=True, repr=False)
class KaimingNormal(Initializer):
    """N(0, 2 / fan_out) (He et al. 2015, equation 14), which keeps the size of gradients: PyTorch's
    for the convolutions of its ResNets, kaiming_normal_(mode="fan_out", nonlinearity="relu").
    """

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return Distribution("normal", (0.0, math.sqrt(2.0 / fan_out)))


@dataclass(frozen=True, repr=False)
class ScaledKaiming(Initializer):
    """Kaiming's with b · num / den: `ScaledKaiming[1, 3]`."""

    num: int
    den: int

    def __post_init__(self) -> None:
        check_number(self, "num", self.num, 0.0)
        check_number(self, "den", self.den, 0.0)

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return uniform(math.sqrt(6.0 / fan_in) * self.num / self.den)


@dataclass(frozen=True, repr=False)
class Xavier(Initializer):
    """U(−b, b), b = √(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return uniform(math.sqrt(6.0 / (fan_in + fan_out)))


@dataclass(frozen=True, repr=False)
class Normal(Initializer):
    """N(mean, std²): `Normal[0.0, 0.02]`."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        check_number(self, "mean", self.mean)
        check_number(self, "std", self.std, 0.0)

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return Distribution("normal", (float(self.mean), float(self.std)))


@dataclass(frozen=True, repr=False)
class TruncNormalIn(Initializer):
    """N(0, 1) within ±2, times 1.1368 · √(1 / fan_in): of variance 1 / fan_in (DreamerV3)."""

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return Distribution("truncated_normal", (1.1368 * math.sqrt(1.0 / fan_in), 2.0))


@dataclass(frozen=True, repr=False)
class Zero(Initializer):
    """0."""

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return zero()


@dataclass(frozen=True, repr=False)
class Deterministic(Initializer):
    """((i mod 7) − 3) · 0.1 for element i of a weight: the same everywhere, for comparisons."""

    def weight(self, fan_in: int, fan_out: int) -> Distribution:
        return Distribution("deterministic")


def uniform(bound: float) -> Distribution:
    """U(−bound, bound)"""
    return Distribution("uniform", (-bound, bound))


def check_number(owner: Initializer, name: str, value: Any, above: float = -math.inf) -> None:
    """Raises OptionError unless `value` is a finite number greater than `above`."""
    number = real_number(value)
    if number is None:
        raise OptionError(f"{type(owner).__name__}: {name} must be a number, not {value!r}")
    if not math.isfinite(number) or number <= above:
        wanted = "finite" if above == -math.inf else f"greater than {above:g}"
        raise OptionError(f"{type(owner).__name__}: {name} must be {wanted}, not {value!r}")


def initializer(value: Any) -> Initializer:
    """What a user gave as `init`: an initialiser, or the class of one that has no parameters.

    Raises OptionError.
    """
    if isinstance(value, Initializer):
        return value
    if isinstance(value, type) and issubclass(value, Initializer) and value is not Initializer:
        needed = [field.name for field in fields(value)]
        if needed:
            raise OptionError(
                f"init: {value.__name__} needs its parameters: "
                f"write {value.__name__}[{', '.join(needed)}]"
            )
        return value()
    known = {child.__name__: child for child in Initializer.__subclasses__()}
    raise OptionError(
        f"init must be an initialiser such as Kaiming, not {value!r}"
        f"{written_out('init', value, known)}; there are {', '.join(sorted(known))}"
    )


def written_out(option: str, value: Any, known: Iterable[str]) -> str:
    """`: write init=Xavier` where a text is the name of what was meant."""
    found = [name for name in known if isinstance(value, str) and name.lower() == value.lower()]
    return f": write {option}={found[0]}" if found else ""
