"""Updates of flat states and clipping of gradients, ours beside a copy of as many bytes.

    python benchmarks/updates.py
    python benchmarks/updates.py --only clip

"of a copy" compares bytes a second with those of the better of a plain and a non-temporal copy of
as many bytes, in the same run; what only reads may be above 100 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import entries
import numpy as np
from common import Table, main
from entries import Case, element_bytes

from noeira.ir.builder import Builder
from noeira.ir.graph import Value
from noeira.ir.layouts import Range
from noeira.ir.op import op
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.states import CLIP
from noeira.ir.types import TensorType

# An op, its attributes; of those whose gradients are clipped, by one factor or one for each range.
UPDATES: Sequence[tuple[str, dict[str, Any], str]] = (
    ("adam", {}, ""),
    ("adam", {}, "one"),
    ("adam", {"weight_decay": 0.01, "decoupled": True}, "each"),
    ("rmsprop", {"centered": True, "momentum": 0.9}, ""),
    ("lion", {}, ""),
    ("adagrad", {}, ""),
    ("laprop", {}, "each"),
    ("moving_average", {}, ""),
    ("accumulate_gradients", {"weight": 25.0}, ""),
)


def unequal_ranges(size: int) -> tuple[Range, ...]:
    """150 ranges: as in networks, half of them are large and half of them small."""
    small, count = 64, 75
    large = (size - small * count) // count // 32 * 32
    found, at = list[Range](), 0
    for number in range(2 * count):
        stop = at + (large if number < count else small)
        found.append(Range(at, stop if number < 2 * count - 1 else size))
        at = stop
    return tuple(found)


def update(name: str, attrs: dict[str, Any], clipped: str, size: int, dtype: str) -> Case:
    """An update in place."""
    rule = op(name)
    assert isinstance(rule, FlatUpdate)
    ranges = unequal_ranges(size) if clipped == "each" else ()
    given = {**attrs, "ranges": ranges}
    factors = (len(ranges),) if ranges else () if clipped else None
    operands = rule.sample(size, factors, **given).operands
    names = rule.given_operands(rule.Attrs(**given))[: len(operands)]
    results = rule.given_results(rule.Attrs(**given))

    def build(builder: Builder) -> Sequence[Value]:
        values = list[Value]()
        for operand, draw in zip(names, operands, strict=True):
            type = TensorType(dtype if draw.type.is_float else draw.type.dtype, draw.type.shape)
            make = builder.state if operand in results else builder.input
            values.append(make(operand, type))
        made = builder.emit(name, *values, **given)
        for state, new in zip(results, made if isinstance(made, tuple) else (made,), strict=True):
            builder.update(values[names.index(state)], new)
        return []

    draws = {"v": lambda random, type: np.full(type.shape, 1.5)}
    draws |= {"lr": lambda random, type: np.full(type.shape, 1e-6)}
    draws |= {CLIP: lambda random, type: np.full(type.shape, 0.5)}
    flat = sum(draw.type.size == size for draw in operands) + len(results)
    label = f"{name}{f' clip {clipped}' if clipped else ''}"
    return Case(label, (size,), flat * size * element_bytes(dtype), build, draws)


def clipping(name: str, size: int, dtype: str) -> Case:
    """Gradients that are read for their norm, or made anew."""
    flat, reads, writes = TensorType(dtype, (size,)), 1, 0
    attrs: dict[str, Any] = {"max_norm": 1.0}
    if name == "clip_value":
        attrs, writes = {"limit": 0.5}, 1
    if name == "adaptive_clip":
        attrs, reads = {"ranges": unequal_ranges(size)}, 2

    def build(builder: Builder) -> Sequence[Value]:
        values = [builder.input(f"x{number}", flat) for number in range(reads)]
        made = builder.emit(name, *values, **attrs)
        return made if isinstance(made, tuple) else [made]

    return Case(name, (size,), (reads + writes) * size * element_bytes(dtype), build)


def cases(dtype: str, quick: bool) -> Sequence[Case]:
    """The parameters of a small network and, unless the run is quick, of a large one."""
    makers = [partial(update, *one) for one in UPDATES]
    makers += [partial(clipping, one) for one in ("clip_norm", "clip_value", "adaptive_clip")]
    sizes = (235_146,) if quick else (235_146, 25_000_000)
    return [make(size, dtype) for size in sizes for make in makers]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return entries.parser(__doc__)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each op."""
    chosen = cases(options.dtype, options.quick)
    return entries.tables("Updates of flat states, clipping", chosen, options)


if __name__ == "__main__":
    main(parser(), tables)
