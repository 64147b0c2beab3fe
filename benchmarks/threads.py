"""Threads: steps on one and on more, what they cost between calls, and a processor that is busy.

    python benchmarks/threads.py                                ours alone
    python benchmarks/threads.py --peers FOLDER --python PYTHON and the peers', in their own Python

Steps are those of steps.py, 784-256-128-10. The busy processor has another process of the same
priority that never rests: on the last processor, or wherever the system puts it. A mean counts
there: most steps can be as fast as ever while a few take a hundred times as long.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from common import (
    Table,
    ask_for_priority,
    common_parser,
    length,
    main,
    microseconds,
    milliseconds,
    one_of,
    share_note,
    timed,
)
from networks import MLP, batch_of
from processes import Failed, Outcome, Side, interleaved, ours, peer, print_result, reasons

CONFIGS = {"mlp_b1": 1, "mlp_b100": 100, "mlp_b1024": 1024}
QUICK = ("mlp_b100",)
PEERS = ("torch:eager_fused", "jax:jit")
# Seconds of other work between two calls.
PAUSES = (0.0, 5e-5, 1e-3, 5e-3)
IDLE_SECONDS = 1.0
# How many processes are in the way, and whether they keep to the last processor.
LOADS = {
    "nothing else": (0, False),
    "one process, on one processor": (1, True),
    "one process": (1, False),
    "two processes": (2, False),
}
RESTLESS = """
import os
try:
    os.setpriority(os.PRIO_PROCESS, 0, -20)
except OSError:
    pass
while True:
    pass
"""


def program_of(batch: int) -> tuple[Any, Any, Any]:
    """The program, and a batch."""
    import noeira
    from noeira.nn import Adam, CrossEntropy

    # A learning rate so small that the gradients never shrink to where arithmetic gets slow.
    program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(lr=1e-12), batch=batch)
    return program, *batch_of(batch)


def measure(config: str, seconds: float) -> None:
    """Measure our step in this process, and print the result as a peer does."""
    ask_for_priority()
    program, x, y = program_of(CONFIGS[config])
    print_result(timed(lambda: program.step(x, y), seconds))


def sides(config: str, threads: int, options: argparse.Namespace) -> list[Side]:
    """Ours and the peers, with so many threads."""
    given = argparse.Namespace(**vars(options) | {"threads": threads})
    words = "--one", config, "--seconds", options.seconds
    names = PEERS if options.peers else ()
    own = ours(__file__, *words, threads=threads)
    return [own, *(peer(name, config, options.seconds, given) for name in names)]


def scaling(options: argparse.Namespace) -> Table:
    """Steps with one thread, two, … up to all: doubled each time."""
    counts = sorted({options.threads, *(1 << i for i in range(options.threads.bit_length()))})
    counts = [count for count in counts if count <= options.threads]
    rows, records, everything = list[tuple[str, ...]](), list[dict[str, Any]](), list[Outcome]()
    for config in QUICK if options.quick else CONFIGS:
        by_count = {n: interleaved(sides(config, n, options), options.rounds) for n in counts}
        everything += [outcome for found in by_count.values() for outcome in found]
        records += [
            {"config": config, "threads": n, **outcome.record()}
            for n, found in by_count.items()
            for outcome in found
        ]
        for outcomes in zip(*by_count.values(), strict=True):
            medians = [o.timing.median if o.runs else None for o in outcomes]
            cells = [milliseconds(m) if m else "–" for m in medians]
            first, last = medians[0], medians[-1]
            gain = f"{first / last:.2f}" if first and last else "–"
            rows.append((f"{config}, {outcomes[0].name}", *cells, gain))
    head = ("", *(f"{n} thread{'s' if n > 1 else ''}" for n in counts), "gain")
    notes = (share_note(o.timing for o in everything if o.runs), *reasons(everything))
    return Table("Steps by threads: median ms", head, tuple(rows), notes, tuple(records))


def between_calls(options: argparse.Namespace) -> Table:
    """What a native call of a small network takes after a pause, and what the pause costs."""
    program, x, y = program_of(1)
    program.step(x, y)
    program.forward(x)
    entry = program.entries["forward"]
    rows = list[tuple[str, str]]()
    for pause in PAUSES:
        times = list[float]()
        for _ in range(200 if pause >= 1e-3 else 2000):
            until = time.perf_counter() + pause
            while time.perf_counter() < until:
                pass
            started = time.perf_counter()
            entry.run()
            times.append(time.perf_counter() - started)
        rows.append((f"forward of one sample after {1e6 * pause:,.0f} µs of other work, µs",
                     microseconds(statistics.median(times))))  # fmt: skip
    time.sleep(0.1)
    used = time.process_time()
    time.sleep(IDLE_SECONDS)
    used = (time.process_time() - used) / IDLE_SECONDS
    rows.append(("processor time used while nothing is called, %", f"{100 * used:.3f}"))
    return Table(
        f"Between calls, {options.threads} threads", ("", "noeira"), tuple(rows),
        records=(dict(rows),),
    )  # fmt: skip


@contextmanager
def in_the_way(count: int, pinned: bool) -> Iterator[None]:
    """So many processes that never rest."""
    last = max(os.sched_getaffinity(0))
    running = [subprocess.Popen([sys.executable, "-c", RESTLESS]) for _ in range(count)]
    try:
        for process in running if pinned else ():
            os.sched_setaffinity(process.pid, {last})
        time.sleep(0.3 if running else 0)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def busy(options: argparse.Namespace) -> Table:
    """Steps of batch 100 while others use a processor, beside those without."""
    all_sides = sides("mlp_b100", options.threads, options)
    means: dict[str, list[float | None]] = {side.name: [] for side in all_sides}
    rows, records = list[tuple[str, ...]](), list[dict[str, Any]]()
    for label, load in LOADS.items():
        cells = list[str]()
        for side in all_sides:
            with in_the_way(*load):
                found = mean_and_record(side, options.seconds)
            mean, record = found
            means[side.name].append(mean)
            quiet = means[side.name][0]
            records.append({"load": label, "name": side.name, "mean": mean, **record})
            ratio = f"{mean / quiet:.1f} x" if mean and quiet else "–"
            cells += [milliseconds(mean) if mean else "–", ratio]
        rows.append((label, *cells))
    head = ("", *(cell for side in all_sides for cell in (side.name, "slower")))
    title = f"Batch-100 steps beside other work, {options.threads} threads: mean ms"
    return Table(title, head, tuple(rows), records=tuple(records))


def mean_and_record(side: Side, seconds: float) -> tuple[float | None, dict[str, Any]]:
    """The mean of a run's steps: all are measured, one after the other, for so many seconds."""
    try:
        run = side.run()
    except Failed as failed:
        return None, {"reason": str(failed)}
    return seconds / run.timing.calls, dict(run.record)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """Scaling, then between calls, then beside other work."""
    yield scaling(options)
    yield between_calls(options)
    if hasattr(os, "sched_setaffinity"):
        yield busy(options)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    length(parser, full=(2, 5.0), quick=(1, 1.0))
    one_of(parser, CONFIGS)
    return parser


if __name__ == "__main__":
    main(parser(), tables, measure)
