"""What the benchmarks share: how a call is timed, what others did meanwhile, options and tables.

A benchmark is a module with `parser()`, its command line, and `tables(options)`, its results;
`run.py` calls several in turn. All times are in seconds until they are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

# A run in which others took more of the machine does not count.
DISTURBED = 0.03
# Nor one that had fewer processors than this share of what other rounds of the same had.
ENOUGH_PROCESSORS = 0.8
PAUSE_SECONDS = 0.5
WARM_UP_SECONDS = 1.0
FEWEST_CALLS = 3
FEWEST_BATCHES = 3
# How long a batch of calls takes, and how long single calls are tried to find out how many that is.
BATCH_SECONDS = 5e-4
TRIES_SECONDS = 5e-3


@dataclass(frozen=True)
class Timing:
    """Seconds of a call over many calls, and the shares of the machine's processor time that other
    processes (`others`) and the machine's host (`stolen`) took meanwhile.

    used: processors that the process had on average; 0 if that was not watched.
    """

    median: float
    minimum: float
    p90: float
    calls: int
    others: float = 0.0
    stolen: float = 0.0
    used: float = 0.0

    @property
    def disturbance(self) -> float:
        """The share of the machine that was not ours to use."""
        return self.others + self.stolen

    @property
    def disturbed(self) -> bool:
        """Whether it should be measured again."""
        return self.disturbance > DISTURBED


def timing_of(seconds: Sequence[float], watch: Watch | None = None) -> Timing:
    """The statistics of measured calls; the 90th percentile is the nearest rank."""
    ordered = sorted(seconds)
    p90 = ordered[math.ceil(0.9 * len(ordered)) - 1]
    shares = (watch.others, watch.stolen, watch.used) if watch else ()
    return Timing(statistics.median(ordered), ordered[0], p90, len(ordered), *shares)


class Watch:
    """While open, watches what others do: `others` and `stolen` are shares of all processors' time.

    The system counts in hundredths of a second, of which one is forgiven. Both shares stay 0 where
    the system has no /proc/stat.
    """

    others = stolen = used = 0.0

    def __enter__(self) -> Watch:
        self.started = time.perf_counter()
        self.before = processor_seconds()
        return self

    def __exit__(self, *exception: object) -> None:
        wall = time.perf_counter() - self.started
        all_time = wall * (os.cpu_count() or 1)
        busy, stolen, own = (b - a for a, b in zip(self.before, processor_seconds(), strict=True))
        tick = 1 / os.sysconf("SC_CLK_TCK")
        self.others = max(0.0, busy - own - tick) / all_time
        self.stolen = max(0.0, stolen - tick) / all_time
        self.used = own / wall


def processor_seconds() -> tuple[float, float, float]:
    """Seconds that the machine was busy, that its host took, and that this process used."""
    own = time.process_time()
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
    except OSError:
        return own, 0.0, own
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = ticks[:8]
    second = os.sysconf("SC_CLK_TCK")
    busy = user + nice + system + interrupts + soft_interrupts
    return busy / second, stolen / second, own


def ask_for_priority() -> None:
    """Come before other processes, as far as the system lets this one."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        Path("/proc/self/autogroup").write_text("-20")
    except OSError:
        pass


def use_processors(count: int) -> None:
    """Keep this process to so many processors, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def timed(call: Callable[[], object], seconds: float, inner: int = 1) -> Timing:
    """Calls for `seconds` after a warm-up; each measurement is the mean of `inner` calls."""
    warm = time.perf_counter() + min(WARM_UP_SECONDS, seconds / 2)
    call()
    while time.perf_counter() < warm:
        call()
    times = list[float]()
    with Watch() as watch:
        end = time.perf_counter() + seconds
        while len(times) < FEWEST_CALLS or time.perf_counter() < end:
            started = time.perf_counter()
            for _ in range(inner):
                call()
            times.append((time.perf_counter() - started) / inner)
    return timing_of(times, watch)


def timed_batches(run: Callable[[int], int], seconds: float) -> Timing:
    """As `timed`, for a native loop: `run` takes how many calls to make, and gives how many it has
    made. Each measurement is the mean of a batch of about BATCH_SECONDS.
    """
    run(1)
    one, tries = math.inf, time.perf_counter() + TRIES_SECONDS
    while one == math.inf or time.perf_counter() < tries:
        started = time.perf_counter()
        run(1)
        one = min(one, time.perf_counter() - started)
    batch = max(1, int(BATCH_SECONDS / max(one, 1e-7)))
    warm = time.perf_counter() + seconds / 3
    while time.perf_counter() < warm:
        run(batch)
    times, made = list[float](), 0
    with Watch() as watch:
        end = time.perf_counter() + seconds
        while len(times) < FEWEST_BATCHES or time.perf_counter() < end:
            started = time.perf_counter()
            done = run(batch)
            times.append((time.perf_counter() - started) / done)
            made += done
    return replace(timing_of(times, watch), calls=made)


class Timed(Protocol):
    """Something that was measured."""

    @property
    def timing(self) -> Timing: ...


T = TypeVar("T", bound=Timed)


def undisturbed(measure: Callable[[], T], tries: int = 4) -> T:
    """Measures again while others disturb it, after a pause; the least disturbed of `tries`."""
    found = [measure()]
    while len(found) < tries and found[-1].timing.disturbed:
        time.sleep(PAUSE_SECONDS)
        found.append(measure())
    return min(found, key=lambda each: each.timing.disturbance)


def combined(rounds: Iterable[Timing]) -> Timing:
    """One timing of several rounds: the median (of two, the lower) of the medians of those that
    count, and the least of their minima.

    A round counts if it was not disturbed, and had as many processors as the others: a system may
    let two threads share one while another is idle.
    """
    given = list(rounds)
    most = max(t.used for t in given)
    kept = [t for t in given if not t.disturbed and t.used >= ENOUGH_PROCESSORS * most]
    kept = kept or [min(given, key=lambda t: t.disturbance)]
    return Timing(
        statistics.median_low(t.median for t in kept),
        min(t.minimum for t in kept),
        statistics.median_low(t.p90 for t in kept),
        sum(t.calls for t in kept),
        max(t.others for t in kept),
        max(t.stolen for t in kept),
        min(t.used for t in kept),
    )


def geometric_mean(values: Iterable[float]) -> float:
    """The mean of ratios."""
    return statistics.geometric_mean(values)


@dataclass(frozen=True)
class Table:
    """Results as people read them, and the same as records for programs."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    records: tuple[dict[str, Any], ...] = ()

    def plain(self) -> str:
        """Aligned columns; all but the first end at the same place."""
        cells = (self.head, *self.rows)
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        lines = [self.title]
        for row in cells:
            first, *others = (
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  " + "  ".join([first, *others]).rstrip())
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def markdown(self) -> str:
        """A table of a Markdown page, under its title in bold."""
        rule = "|".join(["---", *["--:"] * (len(self.head) - 1)])
        body = (" | ".join(row) for row in (self.head, *self.rows))
        head, *rows = (f"| {line} |" for line in body)
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([f"**{self.title}**\n", head, f"|{rule}|", *rows, *notes])


def milliseconds(seconds: float) -> str:
    """Three significant digits in ms: `0.0481`, `12.3`, `1,234`."""
    return digits(1e3 * seconds)


def microseconds(seconds: float) -> str:
    """Three significant digits in µs."""
    return digits(1e6 * seconds)


def digits(number: float) -> str:
    """Three significant digits, never as a power of ten."""
    if number == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(number))))
    return f"{number:,.{places}f}"


def percent(share: float) -> str:
    """`84 %`"""
    return f"{100 * share:.0f} %"


def share_note(timings: Iterable[Timing]) -> str:
    """A line that says how far others disturbed what is shown."""
    given = list(timings)
    others, stolen = max(t.others for t in given), max(t.stolen for t in given)
    shares = f"{100 * others:.1f} % of the machine, its host {100 * stolen:.1f} %"
    return f"Other processes took at most {shares} in a run that counts."


def common_parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--markdown", action="store_true", help="print tables for a Markdown page")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="folder of peers' scripts")
    parser.add_argument(
        "--python", help="the Python that peers and other libraries are installed in"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all processors"
    )
    return parser


def length(
    parser: argparse.ArgumentParser, full: tuple[int, float], quick: tuple[int, float]
) -> None:
    """Add the options for rounds and for the seconds of a run."""
    ways = f"{full[0]}, quick {quick[0]}", f"{full[1]}, quick {quick[1]}"
    parser.add_argument("--rounds", type=int, help=f"default: {ways[0]}")
    parser.add_argument("--seconds", type=float, help=f"of a run; default: {ways[1]}")
    parser.set_defaults(lengths=(full, quick))


def parsed(
    parser: argparse.ArgumentParser, words: Sequence[str] | None = None
) -> argparse.Namespace:
    """The options, with the rounds and seconds that follow from `--quick` where none were given."""
    options = parser.parse_args(words)
    rounds, seconds = getattr(options, "lengths", ((1, 1.0), (1, 1.0)))[options.quick]
    options.rounds = getattr(options, "rounds", None) or rounds
    options.seconds = getattr(options, "seconds", None) or seconds
    return options


def main(
    parser: argparse.ArgumentParser,
    tables: Callable[[argparse.Namespace], Iterable[Table]],
    one: Callable[[str, float], None] | None = None,
) -> None:
    """What a benchmark does when it is run: measure and print its tables.

    one: measures a part in this process, for so many seconds, and prints the result as a peer does;
    it is called with what the hidden option `--one` names, as the benchmark's own processes do.
    """
    options = parsed(parser)
    if one and options.one:
        one(options.one, options.seconds)
    else:
        show(tables(options), options)


def one_of(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the hidden option that names what one process measures."""
    parser.add_argument("--one", choices=tuple(names), help=argparse.SUPPRESS)


def show(tables: Iterable[Table], options: argparse.Namespace) -> list[Table]:
    """Print tables as they come; written as JSON at the end if asked for."""
    shown = list[Table]()
    for table in tables:
        print(table.markdown() if options.markdown else table.plain(), end="\n\n", flush=True)
        shown.append(table)
    if options.json:
        text = json.dumps([asdict(table) for table in shown], indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n")
    return shown
