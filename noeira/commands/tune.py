"""`noeira tune`: times other choices for a network's kernels than the rules', saves the faster."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from noeira.codegen.c.target import CTarget
from noeira.codegen.choices import read_choices
from noeira.commands.support.loading import c_toolchain_for
from noeira.commands.support.options import add_model, stages_from
from noeira.commands.support.usage import SECONDS, WHOLE, duration, positive, reading
from noeira.commands.support.values import bind_inputs, bind_states
from noeira.compiler import run_passes
from noeira.dump import write
from noeira.ir.choices import NO_CHOICES, Choices, Problem, Row
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import STATE, root_of
from noeira.ir.states import LEARNING_RATE
from noeira.machine.processor import processor_name
from noeira.report.table import plural
from noeira.runtime.c.toolchain import CToolchain
from noeira.runtime.entry_point import EntryPoint
from noeira.runtime.interrupts import Interrupts
from noeira.runtime.threads import processor_count, thread_count
from noeira.stages import Stages
from noeira.tuning.search import Outcome, Over, search, until
from noeira.tuning.trials import Tried, build_trials, problems_of

CANDIDATES = 48
# Problems that are built and timed together: each turn is a few steps of the network.
GROUP = 8
HEAD = ("call", "problem", "by rule", "best", "gain", "choice")
# Characters of the columns of numbers.
NUMBER_WIDTHS = (9, 9, 6)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, the table, and how long to search."""
    add_model(parser, "isa")
    whole = reading(positive, WHOLE)
    add = parser.add_argument_group("the search").add_argument
    add("--out", metavar="FILE", help="table to write, or to add to (default: NAME.choices)")
    add(
        "--seconds",
        type=reading(duration, SECONDS),
        metavar="S",
        help="begin nothing new after so long, once the first problems were timed (default: until "
        "every problem is decided)",
    )
    add(
        "--threads",
        type=whole,
        metavar="N",
        help="threads to tune for (default: as programs have, see NOEIRA_THREADS)",
    )
    add(
        "--candidates",
        type=whole,
        default=CANDIDATES,
        metavar="N",
        help=f"choices to try for each problem at most (default: {CANDIDATES})",
    )


def run(args: argparse.Namespace) -> int:
    """Search, print what is found, and write the table."""
    # Without a table: what is looked for is what to put in one.
    stages = stages_from(args, choices=NO_CHOICES)
    path = Path(args.out or f"{stages.job.net.__name__.lower()}.choices")
    before = read_choices(path) if path.exists() else Choices()
    toolchain = c_toolchain_for(vars(args).get("isa"), before)
    threads = (args.threads or thread_count()) if toolchain.compiler.has_threads else 1
    tuner = Tuner(toolchain, threads, args.candidates, args.seconds)
    groups = tuner.groups(stages)
    if not groups:
        name = stages.job.net.__name__
        print(f"{name} has no matrix product, and only those have choices: nothing to tune")
        return 0
    listing = Listing.of(tried for _, group in groups for tried in group)
    print(f"{stages.job.net.__name__} for {toolchain.target.name}, {plural(threads, 'thread')}\n")
    print(listing.line(HEAD), flush=True)
    try:
        with Interrupts() as interrupts:
            for outcome in tuner.outcomes(groups, interrupts):
                print(listing.line(cells(outcome)), flush=True)
    except KeyboardInterrupt:
        tuner.stopped = True
    save(path, before, tuner, toolchain.target)
    return 1 if tuner.stopped else 0


@dataclass
class Tuner:
    """A search over the entries of a network, and what it has found so far."""

    toolchain: CToolchain
    threads: int
    candidates: int
    seconds: float | None
    found: list[Outcome] = field(default_factory=list)
    stopped: bool = False

    def groups(self, stages: Stages) -> list[tuple[ComputeGraph, list[Tried]]]:
        """Problems that are timed together, and the graph they are in. The training step comes
        first; what occurs in several entries is timed in the first of them.
        """
        found, seen = list[tuple[ComputeGraph, list[Tried]]](), set[Problem]()
        for graph in graphs(stages):
            tried = problems_of(graph, self.toolchain.target, self.candidates)
            new = [one for one in tried if one.problem not in seen]
            seen |= {one.problem for one in new}
            found += [(graph, new[start : start + GROUP]) for start in range(0, len(new), GROUP)]
        return found

    def outcomes(
        self, groups: Iterable[tuple[ComputeGraph, list[Tried]]], interrupts: Interrupts
    ) -> Iterator[Outcome]:
        """The outcomes as they are known, until Ctrl-C or the end of the time."""
        deadline = time.monotonic() + (self.seconds or float("inf"))
        wanted = lambda: interrupts.wanted  # noqa: E731
        for number, (graph, tried) in enumerate(groups):
            # However short the time: what is built first is timed once, or all was for nothing.
            over = until(deadline, wanted, rounds=0 if number else 1)
            if over(0):
                break
            for outcome in self.group(graph, tried, over):
                self.found.append(outcome)
                yield outcome
        self.stopped = interrupts.wanted

    def group(self, graph: ComputeGraph, tried: Sequence[Tried], over: Over) -> list[Outcome]:
        """Build and search some problems of a graph."""
        count = sum(len(one.candidates) * len(one.results) for one in tried)
        with status(f"building {plural(count, 'kernel')} …"):
            trials = build_trials(
                graph, tried, self.toolchain, bind, self.threads, processor_count()
            )
        with status(f"timing {plural(len(tried), 'problem')} …"):
            return search(trials, over)


def graphs(stages: Stages) -> Iterator[ComputeGraph]:
    """The graphs of a network's entries after the last pass, the one asked for or all, the training
    step first.
    """
    entries = reversed(stages.job.entries())
    for dump in [stages.traced] if stages.entry else [entry.dump for entry in entries]:
        yield run_passes(dump).graph


def bind(entry: EntryPoint) -> None:
    """Give a step its states and inputs. Its learning rate is zero: however often it runs, numbers
    stay as they are, since those near zero take longer.
    """
    bind_states(entry, 0, None)
    bind_inputs(entry, 0, None)
    rate = entry.arrays.get(root_of(STATE, LEARNING_RATE))
    if rate is not None:
        rate[...] = 0


@contextmanager
def status(text: str) -> Iterator[None]:
    """What is being done, on a terminal, for as long as it lasts."""
    shown = sys.stderr.isatty()
    if shown:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Listing:
    """A table whose lines are printed as they are known; its columns are as wide as need be."""

    widths: tuple[int, ...]

    @classmethod
    def of(cls, problems: Iterable[Tried]) -> Listing:
        """For these problems."""
        texts = [HEAD[:2], *((call_text(tried), tried.problem.product) for tried in problems)]
        call, product = (max(map(len, column)) for column in zip(*texts, strict=True))
        return cls((call, product, *NUMBER_WIDTHS))

    def line(self, cells: Sequence[str]) -> str:
        """A line of it; numbers end at the same place."""
        padded = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, self.widths, strict=False))
        ]
        return "  ".join([*padded, *cells[len(self.widths) :]]).rstrip()


def call_text(tried: Tried) -> str:
    """The first call of a problem, and how many others there are: `%0.relu`, `%0.relu + 3`."""
    first, *others = tried.results
    return f"%{first} + {len(others)}" if others else f"%{first}"


def cells(outcome: Outcome) -> tuple[str, ...]:
    """A problem: its calls, its time by rule and, if it is better, with the best choice."""
    product, by_rule = outcome.tried.problem.product, time_text(outcome.by_rule)
    if not outcome.better:
        return (call_text(outcome.tried), product, by_rule, "", "", "by rule")
    stages = " ".join(map(str, outcome.choice.stages))
    best, gain = time_text(outcome.best), f"{100 * outcome.gain - 100:.0f} %"
    return (call_text(outcome.tried), product, by_rule, best, gain, stages)


def time_text(seconds: float) -> str:
    """`182.31 µs`, `12.40 ms`"""
    return f"{1e6 * seconds:.2f} µs" if seconds < 0.001 else f"{1e3 * seconds:.2f} ms"


def save(path: Path, before: Choices, tuner: Tuner, target: CTarget) -> None:
    """Write what was found into the table, and say what it is worth. Raises NoeiraError if it
    cannot be written.
    """
    threads = plural(tuner.threads, "thread")
    if not tuner.found:
        print("\nstopped before anything was timed: no table was written")
        return
    better = [outcome for outcome in tuner.found if outcome.better]
    rows = [row_of(outcome, threads) for outcome in better]
    head = f"made by noeira tune for {target.name}, {processor_name()}, {threads}"
    table = before.merged(rows, [outcome.tried.problem for outcome in tuner.found], (head,))
    write(path, str(table))
    by_rule = sum(outcome.by_rule for outcome in tuner.found)
    best = sum(o.best if o.better else o.by_rule for o in tuner.found)
    print(f"\nin all {time_text(best)}, by rule {time_text(by_rule)}")
    stopped = " (stopped early)" if tuner.stopped else ""
    print(f"{path}: {plural(len(table.rows), 'choice')}{stopped}")


def row_of(outcome: Outcome, threads: str) -> Row:
    """A row of the table; its comment says what it is worth."""
    times = f"{time_text(outcome.best)}, by rule {time_text(outcome.by_rule)}, {threads}"
    return Row(outcome.tried.problem, outcome.choice.stages, times)
