"""Entry points of single ops, made by our own pipeline and timed beside a peer's in turn.

`elementwise.py` and `rows.py` say which ops; `torch_ops.py` is the peer's side, in its own Python.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Table,
    Timing,
    combined,
    common_parser,
    digits,
    length,
    microseconds,
    percent,
    share_note,
    timed_batches,
)
from processes import OTHER_PYTHON, Worker, run_of

from noeira.codegen.c.render import render_c
from noeira.codegen.language import C
from noeira.codegen.source import Source
from noeira.ir.arrays import numpy_dtype
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.plan import INPUT, STATE
from noeira.ir.types import TensorType
from noeira.passes.schedule import Schedule
from noeira.planning.memory import make_plan
from noeira.runtime.build.library import load
from noeira.runtime.c.compiled_entry import CompiledEntry
from noeira.runtime.c.toolchain import CToolchain, c_toolchain
from noeira.runtime.store import aligned_zeros
from noeira.runtime.threads import thread_count

COPY = """
#include <stddef.h>
{prelude}
{threads}
// A share of a copy of `stride` vectors.
static void copy(const struct job *job, const int stream, const int share, const int shares) {{
    float *const to = (float *)job->base[0];
    const float *const from = (const float *)job->base[1];
    const long first = job->stride * share / shares, last = job->stride * (share + 1) / shares;
    if (stream) {{
        for (long i = first; i < last; i++)
            stream_f32(to + i * F32_LANES, load_f32(from + i * F32_LANES));
        stream_end_f32();
    }} else {{
        for (long i = first; i < last; i++)
            store_f32(to + i * F32_LANES, load_f32(from + i * F32_LANES));
    }}
    // For all the compiler knows, something reads each copy.
    __asm__ volatile("" : : "r"(to) : "memory");
}}
void noeira_copy(char *const *base, long size, int threads, int stream, long times);
void noeira_copy(char *const *base, long size, int threads, int stream, long times) {{
    const struct job job = {{base, NULL, NULL, size / F32_LANES}};
    struct team team = gather(threads, copy, &job, 0);
    for (long time = 0; time < times; time++)
        together(&team, stream);
    disband(&team);
}}
"""


@dataclass(frozen=True)
class Case:
    """An op to time: what the peer calls it, its sizes, and the graph that we make of it.

    `moved`: bytes between the kernel and memory at least. `draws`: how inputs are drawn, by name.
    """

    op: str
    sizes: tuple[int, ...]
    moved: int
    build: Callable[[Builder], Sequence[Value]]
    draws: dict[str, Callable[[np.random.Generator, TensorType], np.ndarray]] = field(
        default_factory=dict
    )

    @property
    def label(self) -> str:
        """`gelu 4096x1024`"""
        return f"{self.op} {'x'.join(map(str, self.sizes))}"


@dataclass(frozen=True)
class Row:
    """A case as measured: `copied` is the bandwidth of a copy of as much, in bytes a second."""

    case: Case
    ours: Timing
    peer: Timing | None
    copied: float


def fused(builder: Builder, count: int, read: Sequence[Value]) -> None:
    """Make one kernel of the last `count` nodes, of which `read` is wanted."""
    body = tuple(builder.nodes[-count:])
    builder.nodes[-count:] = [close(body, {v.name for v in read}, builder.origin)]


def graph_of(case: Case) -> ComputeGraph:
    """The graph of a case."""
    builder = Builder(case.op)
    return Schedule()(builder.done(case.build(builder)))


def entries(cases: Sequence[Case], toolchain: CToolchain) -> Iterator[CompiledEntry]:
    """The entry point of each case, with operands that were drawn."""
    for case in cases:
        plan = make_plan(graph_of(case), toolchain.target.choose, toolchain.target.name)
        source = render_c("benchmark", [plan], toolchain.target)
        entry = CompiledEntry(plan, load(toolchain.build(source)))
        random = np.random.default_rng(0)
        given = [(INPUT, i.value) for i in plan.graph.inputs]
        given += [(STATE, s.value) for s in plan.graph.states]
        for kind, value in given:
            array = aligned_zeros(value.type)
            array[...] = case.draws.get(value.name, drawn)(random, value.type)
            entry.bind(f"{kind} {value.name}", array)
        yield entry


def drawn(random: np.random.Generator, type: TensorType) -> np.ndarray:
    """Normal numbers of a float type, ones of any other."""
    dtype = numpy_dtype(type.dtype)
    if dtype.kind != "f":
        return np.ones(type.shape, dtype)
    block = random.standard_normal(min(type.size, 1 << 20)).astype(dtype)
    return np.resize(block, type.shape)


class Copy:
    """Copies arrays with all threads: with plain stores, and with those that pass the caches by."""

    def __init__(self, toolchain: CToolchain) -> None:
        from noeira.codegen.c.prelude import prelude
        from noeira.codegen.environment import template

        isa = toolchain.target.machine
        names = frozenset({"load_f32", "store_f32", "stream_f32", "stream_end_f32", "F32_LANES"})
        threads = template("c/unit/threads.c.j2").render()
        text = COPY.format(prelude=prelude(isa, names), threads=threads)
        library = toolchain.build(Source(C, "copy", text, ""))
        self.function = load(library).noeira_copy
        self.function.argtypes = [
            ctypes.c_void_p,
            ctypes.c_long,
            *[ctypes.c_int] * 2,
            ctypes.c_long,
        ]
        self.function.restype = None

    def bandwidth(self, moved: int, seconds: float) -> float:
        """Bytes a second, read and written, of the better kind of copy that moves as much."""
        half = max(moved // 2 // 4, 1024)
        source, target = (aligned_zeros(TensorType("f32", (half,))) for _ in range(2))
        source[...] = 1
        io = (ctypes.c_void_p * 2)(target.ctypes.data, source.ctypes.data)
        best = 0.0
        for stream in (0, 1):

            def run(times: int, stream: int = stream) -> int:
                self.function(io, half, thread_count(), stream, times)
                return times

            best = max(best, 8 * half / timed_batches(run, seconds / 2).median)
        return best


def torch(python: str) -> Worker:
    """A process that times an op of PyTorch's when asked to."""
    script = Path(__file__).with_name("torch_ops.py")
    return Worker("torch", [python, str(script), str(thread_count())], OTHER_PYTHON)


def measure(
    cases: Sequence[Case], options: argparse.Namespace, peer: Worker | None
) -> Iterator[Row]:
    """Times every case, in turn with the peer and a copy, round after round."""
    toolchain = c_toolchain()
    if toolchain is None:
        raise SystemExit("there is no C compiler")
    copy, seconds = Copy(toolchain), options.seconds
    for case, entry in zip(cases, entries(cases, toolchain), strict=True):
        request = {"op": case.op, "sizes": case.sizes, "seconds": seconds, "dtype": options.dtype}
        own, theirs, copied = list[Timing](), list[Timing](), 0.0
        for _ in range(options.rounds):
            own.append(timed_batches(entry.run, seconds))
            copied = max(copied, copy.bandwidth(case.moved, seconds / 2))
            if peer:
                theirs += timings_of(peer.ask(**request))
        yield Row(case, combined(own), combined(theirs) if theirs else None, copied)


def timings_of(answer: Mapping[str, Any]) -> list[Timing]:
    """A round of the peer's; nothing if it does not know the op."""
    return [run_of(answer).timing] if answer["n"] else []


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The command line of a benchmark of ops."""
    parser = common_parser(doc)
    parser.add_argument("--dtype", default="f32", choices=("f32", "f64"))
    parser.add_argument("--only", default="", help="ops whose label contains this")
    length(parser, full=(5, 0.2), quick=(2, 0.05))
    return parser


def tables(title: str, cases: Sequence[Case], options: argparse.Namespace) -> Iterator[Table]:
    """A row for each op, beside PyTorch's if a Python was given that has it."""
    chosen = [case for case in cases if options.only in case.label]
    peer = torch(options.python) if options.python else None
    measured = list(measure(chosen, options, peer))
    if peer:
        peer.close()
    has_peer = any(row.peer for row in measured)
    head = ["", "noeira", "GB/s", "of a copy", *(["torch", "torch / noeira"] if has_peer else [])]
    yield Table(
        f"{title}, {options.dtype}, {thread_count()} threads: µs, median (minimum)",
        tuple(head),
        tuple(cells(row, has_peer) for row in measured),
        (share_note(row.ours for row in measured),),
        tuple(map(as_record, measured)),
    )


def cells(row: Row, has_peer: bool) -> tuple[str, ...]:
    """Microseconds, bandwidth, and how many times longer the peer takes."""
    ours, peer = row.ours, row.peer
    bandwidth = row.case.moved / ours.median
    found = [row.case.label, both(ours), digits(1e-9 * bandwidth), percent(bandwidth / row.copied)]
    if has_peer:
        found += [both(peer), f"{peer.median / ours.median:.2f}"] if peer else ["–", "–"]
    return tuple(found)


def both(timing: Timing) -> str:
    """Median and minimum."""
    return f"{microseconds(timing.median)} ({microseconds(timing.minimum)})"


def as_record(row: Row) -> dict[str, Any]:
    """A row as JSON: seconds, and bytes a second."""
    return {
        "case": row.case.label,
        "moved": row.case.moved,
        "noeira": vars(row.ours),
        "torch": vars(row.peer) if row.peer else None,
        "copy_bandwidth": row.copied,
    }


def element_bytes(dtype: str) -> int:
    """Bytes of an element."""
    return numpy_dtype(dtype).itemsize


if __name__ == "__main__":
    sys.exit("run elementwise.py or rows.py")
