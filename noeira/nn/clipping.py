"""Clipping of gradients: plain frozen values that say how gradients that are too large are made
smaller before the optimizer reads them. Their options, with defaults and bounds, are those of the
op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import OptionError
from noeira.ir.numbers import finite_number
from noeira.ir.ops.clipping import ClipAdaptiveOptions, ClipNormOptions, ClipValueOptions
from noeira.nn.core.init import written_out
from noeira.nn.core.option_value import OptionValue

__all__ = ["ClipAdaptive", "ClipNorm", "ClipValue", "Clipping"]


@dataclass(frozen=True)
class Clipping(OptionValue):
    """The parent of the ways to clip gradients g."""


@dataclass(frozen=True)
class ClipNorm(ClipNormOptions, Clipping):
    """By the norm of all gradients, as PyTorch's clip_grad_norm_ (Pascanu et al. 2013).

    g = min(1, max_norm / ‖g‖) · g

    The norm before that is reported; with max_norm 0 that is all. A step in which it is not finite
    changes nothing.
    """

    op: ClassVar[str] = "clip_norm"
    needs: ClassVar[str] = "ClipNorm(1.0)"


@dataclass(frozen=True)
class ClipValue(ClipValueOptions, Clipping):
    """Each element by itself, as PyTorch's clip_grad_value_: g = min(max(g, −limit), limit)."""

    op: ClassVar[str] = "clip_value"
    needs: ClassVar[str] = "ClipValue(0.5)"


@dataclass(frozen=True)
class ClipAdaptive(ClipAdaptiveOptions, Clipping):
    """By the norm of each parameter p (Brock et al. 2021, as DreamerV3 does).

    g = min(1, clip · max(least, ‖p‖) / ‖g‖) · g
    """

    op: ClassVar[str] = "adaptive_clip"


def clipping(value: Any) -> Clipping:
    """What a user gave as the way to clip: a value, or the class for its defaults.

    Raises OptionError.
    """
    if isinstance(value, Clipping) and value.op:
        return value
    if isinstance(value, type) and issubclass(value, Clipping) and value.op:
        return value()
    known = [name for name in __all__ if name != Clipping.__name__]
    number = finite_number(value)
    hint = f": write clip=ClipNorm({number!r})" if number is not None else ""
    raise OptionError(
        f"clip must be one such as ClipNorm(1.0), not {value!r}"
        f"{hint or written_out('clip', value, known)}; there are {', '.join(known)}"
    )
