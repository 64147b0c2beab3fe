"""Row and column kernels, ours beside PyTorch's and beside a copy.

    python benchmarks/rows.py                       ours alone
    python benchmarks/rows.py --python PYTHON       and PyTorch's, in its own Python

Losses are timed with their gradient; `compiled` is the same beside `torch.compile`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import entries
import numpy as np
from common import Table, main
from entries import Case, element_bytes, fused

from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import Value
from noeira.ir.types import TensorType


def loss(op: str, rows: int, columns: int, dtype: str, compiled: bool = False) -> Case:
    """A loss, and the gradient of its logits."""

    def build(builder: Builder) -> Sequence[Value]:
        z = builder.input("z", TensorType(dtype, (rows, columns)))
        if op == "cross_entropy":
            target = builder.input("target", TensorType("i32", (rows,)), columns)
        else:
            target = builder.input("target", z.type)
        loss, _ = builder.emit(op, z, target)
        one = builder.emit("constant", value=1.0, dtype=dtype)
        return [loss, gradients(builder, {loss.name: one}, [z], "vjp")[z.name]]

    def draw(random: np.random.Generator, type: TensorType) -> np.ndarray:
        if type.dtype == "i32":
            return random.integers(0, columns, type.shape)
        return np.full(type.shape, 1 / columns)

    passes = 3 if op == "cross_entropy" else 5
    moved = passes * rows * columns * element_bytes(dtype)
    name = f"{op}_compiled" if compiled else op
    return Case(name, (rows, columns), moved, build, {"target": draw})


def softmax(rows: int, columns: int, dtype: str) -> Case:
    """Softmax of each row."""

    def build(builder: Builder) -> Sequence[Value]:
        return [builder.emit("softmax", builder.input("x", TensorType(dtype, (rows, columns))))]

    return Case("softmax", (rows, columns), 2 * rows * columns * element_bytes(dtype), build)


def softmax_grad(rows: int, columns: int, dtype: str) -> Case:
    """Its gradient from the result."""

    def build(builder: Builder) -> Sequence[Value]:
        d, y = (builder.input(name, TensorType(dtype, (rows, columns))) for name in ("d", "y"))
        return [builder.emit("softmax_grad", d, y)]

    return Case("softmax_grad", (rows, columns), 3 * rows * columns * element_bytes(dtype), build)


def column_sum(rows: int, columns: int, dtype: str) -> Case:
    """Sums over rows."""

    def build(builder: Builder) -> Sequence[Value]:
        return [
            builder.emit("sum", builder.input("x", TensorType(dtype, (rows, columns))), axes=(0,))
        ]

    return Case("column_sum", (rows, columns), rows * columns * element_bytes(dtype), build)


def bias_gradient(op: str, rows: int, columns: int, dtype: str) -> Case:
    """An activation's gradient and the column sums of it, in one kernel."""

    def build(builder: Builder) -> Sequence[Value]:
        d, x = (builder.input(name, TensorType(dtype, (rows, columns))) for name in ("d", "x"))
        d_x = builder.emit(f"{op}.d0", d, x)
        d_bias = builder.emit("sum", d_x, axes=(0,))
        fused(builder, 2, [d_x, d_bias])
        return [d_x, d_bias]

    moved = 3 * rows * columns * element_bytes(dtype)
    return Case(f"{op}_bias_grad", (rows, columns), moved, build)


def cases(dtype: str, quick: bool) -> Sequence[Case]:
    """Shapes of small networks, of language models and, unless the run is quick, large ones."""
    found = [loss("cross_entropy", *shape, dtype) for shape in ((100, 10), (4096, 10), (1024, 65))]
    found += [loss("soft_cross_entropy", *shape, dtype) for shape in ((100, 10), (1024, 1000))]
    large = [] if quick else [(1024, 1536), (4096, 3072)]
    for shape in ((100, 128), (100, 256), *large):
        found.append(column_sum(*shape, dtype))
        found += [bias_gradient(op, *shape, dtype) for op in ("relu", "tanh", "gelu")]
    for shape in ((64, 100), (1024, 256), *([] if quick else [(4096, 1024)])):
        found += [softmax(*shape, dtype), softmax_grad(*shape, dtype)]
    if not quick:
        found += [loss("cross_entropy", 4096, 1000, dtype)]
        found += [loss("cross_entropy", 4096, 50257, dtype, compiled) for compiled in (False, True)]
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return entries.parser(__doc__)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each op."""
    chosen = cases(options.dtype, options.quick)
    return entries.tables("Kernels of rows and columns", chosen, options)


if __name__ == "__main__":
    main(parser(), tables)
