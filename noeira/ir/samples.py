"""What the sweeps try an op on: operands drawn at random, attributes, and what it must refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from noeira.ir.types import TensorType


@dataclass(frozen=True)
class Draw:
    """One operand of a sample: its type, and how its elements are drawn.

    `kind` is `normal`, `positive`, `index` (below `limit`), `probabilities` (rows that sum to 1),
    `true` or `counter`.
    """

    type: TensorType
    kind: str = "normal"
    limit: int = 0


@dataclass(frozen=True)
class Sample:
    """Operands and attributes on which the sweeps try an op; `differentiable` operands are checked
    by differences.
    """

    operands: tuple[Draw, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] | None = None


@dataclass(frozen=True)
class BadSample:
    """Operand types that the shape rule refuses, and a part of the message it refuses them with."""

    operands: tuple[TensorType, ...]
    message: str
    attrs: dict[str, Any] = field(default_factory=dict)


def f32(*shape: int) -> TensorType:
    """`f32[shape]`; the sweeps try f64 in its place too."""
    return TensorType("f32", shape)


def i32(*shape: int) -> TensorType:
    """`i32[shape]`"""
    return TensorType("i32", shape)


def drawn(*shapes: tuple[int, ...], attrs: dict[str, Any] | None = None) -> Sample:
    """A sample of normal f32 operands of these shapes."""
    return Sample(tuple(Draw(f32(*shape)) for shape in shapes), attrs or {})


def each(*shapes: tuple[int, ...], **attrs: Any) -> tuple[Sample, ...]:
    """For each shape, a sample of one normal f32 operand."""
    return tuple(drawn(shape, attrs=attrs) for shape in shapes)
