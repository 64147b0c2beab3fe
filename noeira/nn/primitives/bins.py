"""Numbers as distributions over bins: their two-hot encoding, and what is read from logits."""

from __future__ import annotations

from typing import Any

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import flag, number, size

__all__ = ["TwoHotDecode", "TwoHotEncode"]


class Bins(Module):
    """The parent of what has bins, evenly spaced from `low` to `high`, both included.

    symlog: whether bins stand for sign(x)·log(1 + |x|) of numbers x, so that few of them reach far.
    """

    LOW = number()
    HIGH = number()
    SYMLOG = flag(False)

    @classmethod
    def check(cls) -> None:
        super().check()
        check_bounds(cls, cls.LOW, cls.HIGH)

    @classmethod
    def bounds(cls) -> dict[str, Any]:
        """Attributes of nodes."""
        return {"low": cls.LOW, "high": cls.HIGH}


def check_bounds(cls: type[Module], low: float, high: float) -> None:
    """Raises CompositionError unless there is room for bins between two numbers."""
    if low >= high:
        raise CompositionError(f"{cls!r}: low must be below high")


def need_bins(cls: type[Module], logits: Value) -> None:
    """Raises CompositionError for rows of one logit."""
    if logits.type.shape[-1] == 1:
        raise CompositionError(
            f"{cls!r} takes logits of bins, and is given one number a row: let the layer before "
            "give one for each bin, such as 255"
        )


class TwoHotEncode(Bins):
    """A number as a row of probabilities of its two nearest bins, with itself as their mean:
    `TwoHotEncode.of(255, low=-20.0, high=20.0, symlog=True)`, (*) -> (*, BINS).

    max(0, 1 − |p − c|) of bin c, with p = (x − low)·(BINS − 1)/(high − low), clamped to 0 … BINS −
    1 (Schrittwieser et al. 2019); with symlog of sign(x)·log(1 + |x|) (Hafner et al. 2023). It has
    no gradient.
    """

    BINS = size(least=2)
    LOW = number()
    HIGH = number()
    SYMLOG = flag(False)
    signature = "(*) -> (*, BINS)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        column = scope.emit("reshape", x, shape=(*x.type.shape, 1))
        own = {"bins": cls.BINS, "symlog": cls.SYMLOG}
        return scope.emit("two_hot_encode", column, **cls.bounds(), **own)


class TwoHotDecode(Bins):
    """The number that logits over bins stand for, Σ_c softmax(x)_c·b_c; of symlog bins symexp of
    that: `TwoHotDecode.of(low=-20.0, high=20.0, symlog=True)`, (*, BINS) -> (*).
    """

    signature = "(*, BINS) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        need_bins(cls, x)
        mean = scope.emit("bin_mean", scope.emit("softmax", x), **cls.bounds())
        y = scope.emit("reshape", mean, shape=x.type.shape[:-1])
        return scope.emit("symexp", y) if cls.SYMLOG else y
