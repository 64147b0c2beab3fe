"""Matrix products, ours beside OpenBLAS's and oneDNN's: GFLOP/s, and the share of the peak.

    python benchmarks/gemm.py [SHAPE …]                 beside the OpenBLAS of this Python's NumPy
    python benchmarks/gemm.py [SHAPE …] --python PYTHON beside scipy-openblas32 and onednn there

SHAPE is M,K,N, or M,K,N,nt or M,K,N,tn where the right or the left operand is stored transposed.
Ours is what a program runs: a graph of one matmul, planned, rendered and built like any other. Each
side is a process; they measure a shape in turn, round after round. The peak is that of
multiply-adds in registers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from blas import Product, libraries
from common import (
    Table,
    Timing,
    ask_for_priority,
    combined,
    common_parser,
    digits,
    geometric_mean,
    length,
    parsed,
    percent,
    share_note,
    show,
    timed_batches,
    undisturbed,
    use_processors,
)
from machine import fma_peak
from processes import Run, Worker, print_result, requests, run_of
from shapes import LARGE, MORE_SHAPES, SHAPES, Shape, product

TOLERANCE = {"f32": 1e-4, "f64": 1e-12}


class Ours:
    """Our kernel, run as a program runs it."""

    def __init__(self, shape: Shape, dtype: str) -> None:
        from entries import entries

        from noeira.runtime.c.toolchain import c_toolchain

        toolchain = c_toolchain()
        assert toolchain is not None
        (self.entry,) = entries([product(shape, dtype)], toolchain)
        (call,) = self.entry.plan.calls
        self.choice = " ".join(map(str, call.choice.stages))
        (result,) = self.entry.graph.outputs
        self.arrays = [
            *(self.entry.arrays[f"input {x}"] for x in "ab"),
            self.entry.output(result.name),
        ]
        self.run = self.entry.run


class Theirs:
    """A library's, given by the words that say how to call it."""

    choice = ""

    def __init__(self, shape: Shape, dtype: str, words: Sequence[str]) -> None:
        import numpy as np

        from noeira.ir.types import TensorType
        from noeira.runtime.store import aligned_zeros

        random = np.random.default_rng(0)
        sizes = (*shape.operands, (shape.m, shape.n))
        self.arrays = [aligned_zeros(TensorType(dtype, size)) for size in sizes]
        for array in self.arrays[:2]:
            array[...] = random.standard_normal(array.shape, array.dtype)
        a, b, c = (array.ctypes.data for array in self.arrays)
        path, symbol, integer = words
        self.run = partial(Product(path, symbol, integer, dtype).run, shape=shape, a=a, b=b, c=c)


def answer(
    words: Sequence[str], dtype: str, kept: dict[Shape, Ours | Theirs], request: dict[str, Any]
) -> tuple[Timing, dict[str, Any]]:
    """The timing of a shape, whose matrices are kept until another is asked for."""
    shape = Shape(*request["shape"])
    if shape not in kept:
        kept.clear()
        kept[shape] = Theirs(shape, dtype, words) if words else Ours(shape, dtype)
    side = kept[shape]
    timing = timed_batches(side.run, request["seconds"])
    return timing, {"choice": side.choice, "error": error_of(shape, side.arrays)}


def error_of(shape: Shape, arrays: Sequence[Any]) -> float:
    """The largest difference from NumPy's float64 in the first and last row, relative to the
    largest element: a product that is wrong is not measured.
    """
    import numpy as np

    a, b, c = arrays
    left, right = a.T if shape.transpose_a else a, b.T if shape.transpose_b else b
    expected = left[[0, -1]].astype("f8") @ right.astype("f8")
    return float(np.abs(c[[0, -1]] - expected).max() / np.abs(expected).max())


def workers(options: argparse.Namespace) -> list[Worker]:
    """Ours first, then the libraries that were found."""
    own = [sys.executable, __file__, "--threads", str(options.threads), "--dtype", options.dtype]
    made = [Worker("noeira", [*own, "--worker"], {"NOEIRA_THREADS": str(options.threads)})]
    for library in libraries(options.python or sys.executable, options.dtype):
        command = [*own, "--worker", *library.words()]
        made.append(Worker(library.name, command, library.variables(options.threads)))
    return made


def measure(
    shape: Shape, sides: list[Worker], options: argparse.Namespace
) -> dict[str, tuple[Timing, dict[str, Any]]]:
    """All sides in turn, round after round. Raises RuntimeError for a result that is wrong."""
    runs: dict[str, list[Run]] = {side.name: [] for side in sides}
    request = {"shape": astuple(shape), "seconds": options.seconds}
    for _ in range(options.rounds):
        for side in sides:
            run = undisturbed(lambda side=side: run_of(side.ask(**request)))
            if not run.record["error"] <= TOLERANCE[options.dtype]:  # nor if it is NaN
                raise RuntimeError(f"{side.name}: {shape} is wrong by {run.record['error']:.1e}")
            runs[side.name].append(run)
    return {
        name: (combined(run.timing for run in found), dict(found[-1].record))
        for name, found in runs.items()
    }


def shapes_of(options: argparse.Namespace) -> list[list[Shape]]:
    """The shapes in groups, a table each."""
    if options.shapes:
        return [list(map(Shape.of, options.shapes))]
    groups = [list(map(Shape.of, text.split())) for text in (SHAPES, MORE_SHAPES)]
    if options.quick:
        return [[s for s in groups[0] if s.flops < 2 * LARGE], groups[1][::4]]
    return groups


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each shape."""
    peak = fma_peak(options.threads, options.dtype)
    sides = workers(options)
    try:
        for shapes in shapes_of(options):
            measured = {shape: measure(shape, sides, options) for shape in shapes}
            yield table(measured, [side.name for side in sides], peak, options)
    finally:
        for side in sides:
            side.close()


def table(
    measured: dict[Shape, dict[str, tuple[Timing, dict[str, Any]]]],
    names: list[str],
    peak: float,
    options: argparse.Namespace,
) -> Table:
    """GFLOP/s of all sides, ours against the best library, and the share of the peak."""
    rows, ratios, shares, records = [], [], [], []
    for shape, found in measured.items():
        rates = {name: shape.flops / timing.median for name, (timing, _) in found.items()}
        fastest = shape.flops / found["noeira"][0].minimum
        others = [rate for name, rate in rates.items() if name != "noeira"]
        cells = [digits(1e-9 * rates[name]) for name in names]
        cells[0] += f" ({digits(1e-9 * fastest)})"
        if others:
            ratios.append(rates["noeira"] / max(others))
            cells.append(f"{ratios[-1]:.2f}")
        shares.append(rates["noeira"] / peak)
        choice = [found["noeira"][1]["choice"]] if options.choices else []
        rows.append((str(shape), *cells, percent(shares[-1]), *choice))
        sides = {name: vars(timing) | more for name, (timing, more) in found.items()}
        records.append({"shape": str(shape), "dtype": options.dtype, "sides": sides})
    means = [f"{geometric_mean(ratios):.2f}"] if ratios else []
    blank = [""] * len(names)
    rows.append(
        ("geometric mean", *blank, *means, percent(geometric_mean(shares)), *[""] * options.choices)
    )
    title = (
        f"Matrix products MxKxN, {options.dtype}, {options.threads} threads: GFLOP/s, median (best)"
        f"; peak {digits(1e-9 * peak)}"
    )
    head = ["", *names, *(["noeira / best library"] if ratios else []), "of peak"]
    head += ["choice"] if options.choices else []
    note = share_note(t for found in measured.values() for t, _ in found.values())
    return Table(title, tuple(head), tuple(rows), (note,), tuple(records))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f64"))
    parser.add_argument("--choices", action="store_true", help="a column with the choice made")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    length(parser, full=(5, 0.15), quick=(2, 0.1))
    return parser


def main() -> None:
    """Measure and print, or be one of the sides."""
    options = parsed(parser())
    if options.worker is None:
        show(tables(options), options)
        return
    ask_for_priority()
    use_processors(options.threads)
    kept: dict[Shape, Ours | Theirs] = {}
    for request in requests():
        timing, more = answer(options.worker, options.dtype, kept, request)
        print_result(timing, **more)


if __name__ == "__main__":
    main()
