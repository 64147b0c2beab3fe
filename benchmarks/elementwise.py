"""Element-wise kernels, optimizers and gathers, ours beside PyTorch's and beside a copy.

    python benchmarks/elementwise.py                       ours alone
    python benchmarks/elementwise.py --python PYTHON       and PyTorch's, in its own Python

Outputs are preallocated on both sides where PyTorch can. "of a copy" compares bytes a second with
those of the better of a plain and a non-temporal copy of as many bytes, in the same run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import entries
import numpy as np
from common import Table, main
from entries import Case, element_bytes

from noeira.ir.builder import Builder
from noeira.ir.graph import Value
from noeira.ir.states import COUNTER, FLAG
from noeira.ir.types import TensorType

ACTIVATIONS = ("relu", "tanh", "gelu", "gelu_tanh")


def forward(op: str, size: int, dtype: str) -> Case:
    """An activation."""

    def build(builder: Builder) -> Sequence[Value]:
        return [builder.emit(op, builder.input("x", TensorType(dtype, (size,))))]

    return Case(op, (size,), 2 * size * element_bytes(dtype), build)


def backward(op: str, size: int, dtype: str) -> Case:
    """The gradient of an activation, from a cotangent and the operand or the result."""

    def build(builder: Builder) -> Sequence[Value]:
        d, x = (builder.input(name, TensorType(dtype, (size,))) for name in ("d", "x"))
        return [builder.emit(f"{op}.d0", d, x)]

    return Case(f"{op}_grad", (size,), 3 * size * element_bytes(dtype), build)


def adam(size: int, dtype: str) -> Case:
    """AdamW in place."""

    def build(builder: Builder) -> Sequence[Value]:
        flat, number = TensorType(dtype, (size,)), TensorType(dtype, ())
        p, m, v = (builder.state(name, flat) for name in ("p", "m", "v"))
        g, lr = builder.input("g", flat), builder.input("lr", number)
        step, ok = builder.input("step", COUNTER), builder.input("ok", FLAG)
        made = builder.emit("adam", p, g, lr, step, ok, m, v, weight_decay=0.01, decoupled=True)
        for state, new in zip((p, m, v), made, strict=True):
            builder.update(state, new)
        return []

    draws = {"v": lambda random, type: np.full(type.shape, 1e-4)}
    draws["lr"] = lambda random, type: np.full(type.shape, 1e-6)
    return Case("adamw", (size,), 7 * size * element_bytes(dtype), build, draws)


def take(samples: int, rows: int, width: int, dtype: str) -> Case:
    """A batch out of a data set in random order."""

    def build(builder: Builder) -> Sequence[Value]:
        data = builder.input("data", TensorType(dtype, (samples, width)))
        order = builder.input("order", TensorType("i32", (samples,)), samples)
        cursor = builder.state("cursor", COUNTER)
        builder.update(cursor, builder.emit("count", cursor, by=rows))
        return [builder.emit("take", data, order, cursor, rows=rows)]

    draws = {"order": lambda random, type: random.permutation(type.size)}
    moved = rows * (2 * width * element_bytes(dtype) + 4)
    return Case("take", (samples, rows, width), moved, build, draws)


def cases(dtype: str, quick: bool) -> Sequence[Case]:
    """Sizes in the caches and, unless the run is quick, in memory."""
    sizes = (25_600,) if quick else (25_600, 1 << 24)
    found = [
        make(op, n, dtype) for n in sizes for op in ACTIVATIONS for make in (forward, backward)
    ]
    found += [adam(size, dtype) for size in ((235_146,) if quick else (235_146, 25_000_000))]
    samples = 6_000 if quick else 60_000
    found += [take(samples, 100, 784, dtype), take(samples, 1024, 784, dtype)]
    return [*found, take(100 * samples // (6 if not quick else 1), 4096, 4, dtype)]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return entries.parser(__doc__)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each op."""
    chosen = cases(options.dtype, options.quick)
    return entries.tables("Element-wise kernels, optimizers, gathers", chosen, options)


if __name__ == "__main__":
    main(parser(), tables)
