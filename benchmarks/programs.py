"""Whole programs, ours beside the peers': what `steps.py` and `vision.py` have in common.

Each configuration is a network with its batch, and either trains or infers; a peer's configuration
of the same name is the same network. Runs are processes of their own, in interleaved rounds.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common import (
    Table,
    common_parser,
    digits,
    length,
    milliseconds,
    one_of,
    percent,
    share_note,
    timed,
)
from machine import limits
from processes import Outcome, interleaved, ours, peer, print_result, reasons

from noeira.machine.limits import Limits

# Those that start in seconds.
QUICK_PEERS = ("torch:eager", "jax:")


@dataclass(frozen=True)
class Work:
    """What a network must do: the multiply-adds of each layer for a sample, in order, and how many
    parameters it has, each with so many moments of its optimizer.
    """

    layers: tuple[int, ...]
    parameters: int
    moments: int


@dataclass(frozen=True)
class Config:
    """What is measured."""

    name: str
    batch: int
    work: Work
    trains: bool = True

    @property
    def flops(self) -> int:
        """Of the matrix products and convolutions alone: three a layer in training, the first
        layer's input gradient left out.
        """
        forward = 2 * self.batch * sum(self.work.layers)
        return 3 * forward - 2 * self.batch * self.work.layers[0] if self.trains else forward

    def floor(self, limits: Limits) -> float:
        """The least seconds: the products, at the peak or as fast as their weights can be moved,
        and after them the optimizer, which moves parameters, gradients and moments.
        """
        size = 4 * self.work.parameters
        if not self.trains:
            return limits.floor_seconds(self.flops, size)
        moved = 1 + self.work.moments
        state = (1 + moved) * size
        products = limits.floor_seconds(self.flops, 2 * size, size, working_set=state)
        return products + limits.floor_seconds(0, state, moved * size, working_set=state)


@dataclass(frozen=True)
class Programs:
    """A benchmark's file and its configurations: all, and those of a quick run; the peers that are
    asked, as NAME:VARIANT, and what they all run in words.
    """

    script: str
    configs: Mapping[str, Config]
    quick: tuple[str, ...]
    trained_by: tuple[str, ...]
    inferred_by: tuple[str, ...]
    title: str

    def chosen(self, options: argparse.Namespace) -> list[Config]:
        """Those to measure."""
        default = self.quick if options.quick else tuple(self.configs)
        names = options.configs.split(",") if options.configs else default
        return [self.configs[name] for name in names]

    def peers(self, config: Config, options: argparse.Namespace) -> list[str]:
        """The peers to run."""
        if not options.peers:
            return []
        if options.names:
            return options.names.split(",")
        names = self.trained_by if config.trains else self.inferred_by
        return [n for n in names if not options.quick or n.startswith(QUICK_PEERS)]

    def outcomes(self, config: Config, options: argparse.Namespace) -> list[Outcome]:
        """Ours first, then the peers."""
        words = "--one", config.name, "--seconds", options.seconds
        sides = [ours(self.script, *words, threads=options.threads)]
        names = self.peers(config, options)
        sides += [peer(name, config.name, options.seconds, options) for name in names]
        found = interleaved(sides, options.rounds)
        if not found[0].runs:
            raise SystemExit(f"{config.name}: {reasons(found)[0]}")
        return found

    def parser(self, doc: str | None) -> argparse.ArgumentParser:
        """The command line."""
        parser = common_parser(doc)
        parser.add_argument("--names", help="which peers, as NAME:VARIANT,…")
        parser.add_argument("--configs", help=f"of {', '.join(self.configs)}; default: all")
        length(parser, full=(3, 3.0), quick=(1, 1.0))
        one_of(parser, self.configs)
        return parser


Measured = Mapping[Config, Sequence[Outcome]]


def measure(config: Config, network: Any, optimizer: Any, data: Any, seconds: float) -> None:
    """Measure ours in this process, and print the result as a peer does."""
    import noeira
    from noeira.nn import CrossEntropy

    x, y = data
    started = time.perf_counter()
    options = {"loss": CrossEntropy, "optimizer": optimizer} if config.trains else {}
    program: Any = noeira.compile(network, batch=config.batch, input=x.shape[1:], **options)
    if config.trains:
        call = lambda: program.step(x, y)  # noqa: E731
    else:
        call = lambda: float(program.forward(x)[0, 0])  # noqa: E731
    call()
    first = time.perf_counter() - started
    timing = timed(call, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    planned = program.plans["step" if config.trains else "forward"].peak_bytes() / 2**20
    print_result(timing, first_step_s=first, rss_peak_mb=peak, planned_mb=planned)


def columns_of(measured: Measured) -> list[str]:
    """Who ran at least one configuration, ours first."""
    return list(dict.fromkeys(o.name for found in measured.values() for o in found if o.runs))


def row(
    config: Config, found: Sequence[Outcome], columns: list[str], limits: Limits
) -> tuple[str, ...]:
    """Medians and minima, how many times longer the best peer takes, and what of the floor is
    reached.
    """
    ran = {o.name: o.timing for o in found if o.runs}
    ours = ran["noeira"]
    peers = [t.median for name, t in ran.items() if name != "noeira"]
    cells = [
        f"{milliseconds(ran[name].median)} ({milliseconds(ran[name].minimum)})"
        if name in ran
        else "–"
        for name in columns
    ]
    ratio = [f"{min(peers) / ours.median:.2f}" if peers else "–"] if len(columns) > 1 else []
    rate, floor = config.flops / ours.median, config.floor(limits)
    reached = milliseconds(floor), percent(floor / ours.median)
    return config.name, *cells, *ratio, digits(1e-9 * rate), *reached


def times(programs: Programs, measured: Measured, options: argparse.Namespace) -> Table:
    """The times of all configurations."""
    can, columns = limits(options.threads), columns_of(measured)
    ratio = ["best peer / noeira"] if len(columns) > 1 else []
    everything = [o for found in measured.values() for o in found]
    notes = [
        share_note(o.timing for o in everything if o.runs),
        *(f"{c.name}: {line}" for c, found in measured.items() for line in reasons(found)),
    ]
    return Table(
        f"{programs.title}, {options.threads} threads: median ms (minimum)",
        ("", *columns, *ratio, "GFLOP/s", "floor", "reached"),
        tuple(row(config, found, columns, can) for config, found in measured.items()),
        tuple(notes),
        tuple({"config": c.name, **o.record()} for c, found in measured.items() for o in found),
    )
