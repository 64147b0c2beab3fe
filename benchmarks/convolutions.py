"""Convolutions and their two gradients, ours beside PyTorch's: GFLOP/s, and the share of the peak.

    python benchmarks/convolutions.py [SHAPE …]                     ours alone
    python benchmarks/convolutions.py [SHAPE …] --python PYTHON     and PyTorch's, in its own Python

SHAPE is N,C,F,SIDE or N,C,F,SIDE,KERNEL,STRIDE,GROUPS: a batch of square images of C channels, F
filters of KERNEL x KERNEL (3) with so much padding that a stride of 1 keeps the size. Ours is what
a program runs: a graph of one op, planned, rendered and built like any other. Both have images and
weights channels last. FLOPs are those of a direct convolution, so that an algorithm that needs
fewer may go beyond the peak. The two measure a shape in turn, round after round.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
from common import (
    Table,
    Timing,
    combined,
    common_parser,
    digits,
    geometric_mean,
    length,
    main,
    percent,
    share_note,
    timed_batches,
    undisturbed,
)
from entries import Case, entries, torch
from machine import fma_peak
from processes import Run, Worker, run_of

from noeira.ir.builder import Builder
from noeira.ir.geometry import Geometry
from noeira.ir.graph import Value
from noeira.ir.types import TensorType
from noeira.runtime.c.compiled_entry import CompiledEntry
from noeira.runtime.c.toolchain import c_toolchain
from noeira.runtime.threads import thread_count

# Blocks of ResNet-18 for small images and of a small network; what halves them, with the
# projections beside it; first layers; by channel, in groups, 1x1, and sides of 14 and 7.
SHAPES = """
32,64,64,32  32,128,128,16  32,256,256,8  32,512,512,4  64,32,64,32  64,64,128,16
32,64,128,32,3,2  32,128,256,16,3,2  32,256,512,8,3,2
32,64,128,32,1,2  32,128,256,16,1,2  32,256,512,8,1,2
32,3,64,32  64,3,32,32  8,3,64,224,7,2
64,64,64,32,3,1,64  32,128,128,16,3,1,4  32,256,64,14,1  32,256,256,14  32,512,512,7
"""
QUICK = "8,64,64,16  8,64,128,16,3,2  8,3,64,32  8,64,64,16,3,1,64  8,128,64,14,1"
# The three ops: what each is, and its operands.
OPS = {
    "convolution": ("convolutions", ("x", "weight")),
    "transposed_convolution": ("gradients of images", ("d", "weight")),
    "convolution_weight": ("gradients of weights", ("x", "d")),
}
FEWEST_CHANNELS = 8
TOLERANCE = {"f32": 1e-4, "f64": 1e-12}


@dataclass(frozen=True)
class Shape:
    """A convolution of square images."""

    batch: int
    channels: int
    filters: int
    side: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1

    @classmethod
    def of(cls, text: str) -> Shape:
        """From `N,C,F,SIDE,KERNEL,STRIDE,GROUPS`, the last three optional. Raises ValueError."""
        return cls(*map(int, text.split(",")))

    def __str__(self) -> str:
        """`32 x 64→128 @ 32, 3x3 / 2`"""
        stride = f" / {self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        ends = f"{self.channels}→{self.filters} @ {self.side}"
        return f"{self.batch} x {ends}, {self.kernel}x{self.kernel}{stride}{groups}"

    @property
    def padding(self) -> int:
        """Zeros on each side."""
        return self.kernel // 2

    @property
    def geometry(self) -> Geometry:
        """The same with all numbers."""
        out = (self.side + 2 * self.padding - self.kernel) // self.stride + 1
        return Geometry(
            self.batch,
            self.channels,
            self.filters,
            self.groups,
            size=(self.side, self.side),
            out=(out, out),
            kernel=(self.kernel, self.kernel),
            stride=(self.stride, self.stride),
            before=(self.padding, self.padding),
            after=(self.padding, self.padding),
            dilation=(1, 1),
        )

    @property
    def has_image_gradient(self) -> bool:
        """Whether a network needs it: not where its first layer reads the image."""
        return self.channels >= FEWEST_CHANNELS

    def types(self, dtype: str) -> dict[str, TensorType]:
        """Of all operands of the three ops, channels last."""
        g = self.geometry
        return {
            "x": g.image(dtype, True),
            "weight": g.weight(dtype, True),
            "d": g.result(dtype, True),
        }

    def attributes(self, name: str) -> dict[str, Any]:
        """Of an op."""
        g = self.geometry
        found = {"stride": g.stride, "padding": g.before, "groups": g.groups, "channels_last": True}
        sizes = {"transposed_convolution": g.size, "convolution_weight": g.kernel}
        return found | ({"size": sizes[name]} if name in sizes else {})


@dataclass(frozen=True)
class Row:
    """A shape as measured; algorithm and choice: what ours chose, in short and in full."""

    shape: Shape
    ours: Timing
    peer: Timing | None
    algorithm: str
    choice: str
    error: float


def case(name: str, shape: Shape, dtype: str) -> Case:
    """A graph of one op."""

    def build(builder: Builder) -> Sequence[Value]:
        types = shape.types(dtype)
        given = [builder.input(operand, types[operand]) for operand in OPS[name][1]]
        return [builder.emit(name, *given, **shape.attributes(name))]

    return Case(name, astuple(shape), 0, build)


def error_of(entry: CompiledEntry) -> float:
    """The largest difference from NumPy's float64, relative to the largest element: a convolution
    that is wrong is not measured. Of images it is enough to look at the first.
    """
    (node,) = entry.plan.graph.nodes
    (call,) = entry.plan.calls
    node = call.node
    given = [entry.arrays[f"input {name}"].astype("f8") for name in OPS[node.op.name][1]]
    (result,) = entry.graph.outputs
    found = entry.output(result.name)
    if node.op.name != "convolution_weight":
        given[0], found = given[0][:1], found[:1]
    (expected,) = node.op.reference(node.attrs, *given)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def algorithm_of(entry: CompiledEntry) -> str:
    """`direct`, `by channel`, or the size of Winograd's tiles."""
    (call,) = entry.plan.calls
    names = {stage.name for stage in call.choice.stages}
    if "depthwise" in names:
        return "by channel"
    if "direct" in names:
        return "direct"
    tile = dict(call.choice.stages[0].options)["tile"]
    return f"Winograd F({tile}x{tile}, 3x3)"


def ours(run: Callable[[int], int], seconds: float) -> Run:
    """A measurement of ours."""
    return Run(timed_batches(run, seconds), {})


def measure(
    name: str, shapes: Sequence[Shape], options: argparse.Namespace, peer: Worker | None
) -> Iterator[Row]:
    """Every shape of one op, in turn with the peer. Raises RuntimeError for a result that is
    wrong.
    """
    toolchain = c_toolchain()
    if toolchain is None:
        raise SystemExit("there is no C compiler")
    cases = [case(name, shape, options.dtype) for shape in shapes]
    for shape, entry in zip(shapes, entries(cases, toolchain), strict=True):
        request = {"op": name, "sizes": astuple(shape), "dtype": options.dtype}
        own, theirs = list[Timing](), list[Timing]()
        for _ in range(options.rounds):
            own.append(undisturbed(lambda run=entry.run: ours(run, options.seconds)).timing)
            if peer:
                ask = partial(peer.ask, **request, seconds=options.seconds)
                theirs.append(undisturbed(lambda ask=ask: run_of(ask())).timing)
        error = error_of(entry)
        if not error <= TOLERANCE[options.dtype]:  # nor if it is NaN
            raise RuntimeError(f"{name} {shape} is wrong by {error:.1e}")
        (call,) = entry.plan.calls
        choice = " ".join(map(str, call.choice.stages))
        other = combined(theirs) if theirs else None
        yield Row(shape, combined(own), other, algorithm_of(entry), choice, error)


def table(name: str, measured: Sequence[Row], options: argparse.Namespace) -> Table:
    """GFLOP/s of both, how many times faster ours is, and the share of the peak."""
    peak, threads = fma_peak(thread_count(), options.dtype), thread_count()
    has_peer = any(each.peer for each in measured)
    rates = [each.shape.geometry.flops / each.ours.median for each in measured]
    mean = geometric_mean(rate / peak for rate in rates)
    rows = [
        cells(each, rate / peak, has_peer, options)
        for each, rate in zip(measured, rates, strict=True)
    ]
    ratios = [each.peer.median / each.ours.median for each in measured if each.peer]
    found = ["", f"{geometric_mean(ratios):.2f}"] if has_peer else []
    rows.append(("geometric mean", "", *found, percent(mean), ""))
    head = ["", "noeira", *(["torch", "noeira / torch"] if has_peer else []), "of peak"]
    title = f"2D {OPS[name][0]}, {options.dtype}, {threads} threads: GFLOP/s, median (best)"
    return Table(
        f"{title}; peak {digits(1e-9 * peak)}",
        (*head, "choice" if options.choices else "algorithm"),
        tuple(rows),
        (share_note(each.ours for each in measured),),
        tuple(map(partial(as_record, name), measured)),
    )


def cells(row: Row, of_peak: float, has_peer: bool, options: argparse.Namespace) -> tuple[str, ...]:
    """A row as text."""
    flops = 1e-9 * row.shape.geometry.flops
    ours = f"{digits(flops / row.ours.median)} ({digits(flops / row.ours.minimum)})"
    theirs = list[str]()
    if has_peer:
        theirs = ["–", "–"]
    if row.peer:
        theirs = [digits(flops / row.peer.median), f"{row.peer.median / row.ours.median:.2f}"]
    chosen = row.choice if options.choices else row.algorithm
    return str(row.shape), ours, *theirs, percent(of_peak), chosen


def as_record(name: str, row: Row) -> dict[str, Any]:
    """A row as JSON: seconds."""
    return {
        "op": name,
        "shape": str(row.shape),
        "flops": row.shape.geometry.flops,
        "noeira": vars(row.ours),
        "torch": vars(row.peer) if row.peer else None,
        "choice": row.choice,
        "error": row.error,
    }


def shapes_of(options: argparse.Namespace) -> list[Shape]:
    """Those asked for."""
    given = options.shapes or (QUICK if options.quick else SHAPES).split()
    return [Shape.of(text) for text in given]


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A table for each of the three ops, a row for each shape."""
    shapes = shapes_of(options)
    peer = torch(options.python) if options.python else None
    for name in OPS:
        chosen = [s for s in shapes if name != "transposed_convolution" or s.has_image_gradient]
        if chosen:
            yield table(name, list(measure(name, chosen, options, peer)), options)
    if peer:
        peer.close()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f64"))
    parser.add_argument("--choices", action="store_true", help="choices in full")
    length(parser, full=(5, 0.2), quick=(2, 0.05))
    return parser


if __name__ == "__main__":
    main(parser(), tables)
