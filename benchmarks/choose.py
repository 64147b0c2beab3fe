"""The rule for matrix products beside the best choice that a search finds: how much it gives away.

    python benchmarks/choose.py [SHAPE …]

SHAPE is M,K,N, or M,K,N,nt or M,K,N,tn where the right or the left operand is stored transposed; by
default the shapes of `gemm.py`, but for the largest. Each is a graph of one matmul, searched as
`noeira tune` does it; both times are of the last rounds, in which rule and best take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from common import (
    Table,
    Timing,
    Watch,
    ask_for_priority,
    common_parser,
    digits,
    geometric_mean,
    main,
    microseconds,
    share_note,
    timing_of,
    use_processors,
)
from entries import drawn, graph_of
from shapes import MORE_SHAPES, SHAPES, Shape, product

from noeira.ir.plan import INPUT
from noeira.runtime.c.toolchain import CToolchain, c_toolchain
from noeira.runtime.entry_point import EntryPoint
from noeira.runtime.store import aligned_zeros
from noeira.runtime.threads import processor_count
from noeira.tuning.search import Outcome, search
from noeira.tuning.trials import build_trials, problems_of

CANDIDATES = 96
# Larger products take long to search, and are cut like these.
LARGEST = 2 * 1024**3
# A rule that loses more than this for a shape should be mended.
ALLOWED = 1.10


def bind(entry: EntryPoint) -> None:
    """Give a step operands that were drawn."""
    import numpy as np

    random = np.random.default_rng(0)
    for given in entry.graph.inputs:
        array = aligned_zeros(given.value.type)
        array[...] = drawn(random, given.value.type)
        entry.bind(f"{INPUT} {given.value.name}", array)


def searched(
    shape: Shape, toolchain: CToolchain, options: argparse.Namespace
) -> tuple[Outcome, Timing]:
    """What the search finds for a shape, and what others did meanwhile."""
    graph = graph_of(product(shape, options.dtype))
    tried = problems_of(graph, toolchain.target, options.candidates)
    trials = build_trials(graph, tried, toolchain, bind, options.threads, processor_count())
    with Watch() as watch:
        (outcome,) = search(trials, lambda done: False)
    return outcome, timing_of([outcome.by_rule], watch)


def shapes_of(options: argparse.Namespace) -> list[Shape]:
    """The shapes asked for."""
    if options.shapes:
        return list(map(Shape.of, options.shapes))
    found = [Shape.of(text) for text in f"{SHAPES} {MORE_SHAPES}".split()]
    return [shape for shape in found if shape.flops <= LARGEST][:: 5 if options.quick else 1]


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each shape."""
    ask_for_priority()
    use_processors(options.threads)
    toolchain = c_toolchain()
    if toolchain is None:
        raise SystemExit("there is no C compiler")
    found = {shape: searched(shape, toolchain, options) for shape in shapes_of(options)}
    ratios = {shape: max(1.0, outcome.gain) for shape, (outcome, _) in found.items()}
    rows = [cells(shape, outcome, ratios[shape]) for shape, (outcome, _) in found.items()]
    worst = max(ratios, key=lambda shape: ratios[shape])
    over = sum(ratio > ALLOWED for ratio in ratios.values())
    rows.append(("geometric mean", "", "", f"{geometric_mean(ratios.values()):.3f}", "", ""))
    notes = (
        f"worst: {worst}, {ratios[worst]:.3f}; {over} of {len(rows) - 1} lose more than "
        f"{100 * ALLOWED - 100:.0f} %",
        share_note(timing for _, timing in found.values()),
    )
    head = ("", "by rule", "best", "rule / best", "the rule's", "the best")
    title = f"Matrix products MxKxN, {options.dtype}, {options.threads} threads: µs, median"
    records = tuple(record(shape, outcome) for shape, (outcome, _) in found.items())
    yield Table(title, head, tuple(rows), notes, records)


def cells(shape: Shape, outcome: Outcome, ratio: float) -> tuple[str, ...]:
    """A row; the best choice only where it is not the rule's."""
    rule, best = stages(outcome, 0), stages(outcome, 1)
    times = microseconds(outcome.by_rule), microseconds(outcome.best)
    return (str(shape), *times, f"{ratio:.3f}", rule, best if best != rule else "")


def stages(outcome: Outcome, best: int) -> str:
    """The rule's choice, or the best one, as text."""
    choice = outcome.choice if best else outcome.tried.candidates[0]
    return " ".join(map(str, choice.stages))


def record(shape: Shape, outcome: Outcome) -> dict[str, Any]:
    """A row as JSON, times in seconds."""
    return {
        "shape": str(shape),
        "gflops": digits(1e-9 * shape.flops / outcome.best),
        "by_rule": outcome.by_rule,
        "best": outcome.best,
        "rule": stages(outcome, 0),
        "choice": stages(outcome, 1),
    }


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f64"))
    parser.add_argument(
        "--candidates", type=int, default=CANDIDATES, help=f"of a shape (default: {CANDIDATES})"
    )
    return parser


if __name__ == "__main__":
    main(parser(), tables)
