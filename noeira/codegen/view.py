"""What a template sees of a kernel: small frozen records of names and numbers, never the IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Operand:
    """A pointer argument: `id` is positional (a0, a1, … inputs; y0, y1, … outputs), so equal
    kernels have equal text.
    """

    id: str
    ctype: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Load:
    """An element read from `source`: access is `full` (same index), `row` (index in the last axes)
    or `scalar`.
    """

    name: str
    source: str
    access: str
    dtype: str


@dataclass(frozen=True)
class Store:
    """An element written: `target[index] = name`."""

    target: str
    name: str


@dataclass(frozen=True)
class Constant:
    """A literal, broadcast once before the loop."""

    name: str
    value: str


@dataclass(frozen=True)
class Elementwise:
    """Element-wise code: constants, loads, one statement a scalar op, stores."""

    dtype: str
    constants: tuple[Constant, ...] = ()
    loads: tuple[Load, ...] = ()
    lines: tuple[str, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One kernel: its operands, the element-wise code before and after its anchor, and the target's
    choices.
    """

    symbol: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attrs: Any
    head: Elementwise
    tail: Elementwise
    anchor: Any = None
    choice: Any = None
