"""Where the time of a training step goes beyond the least it could take, launch by launch.

    python benchmarks/floors.py

`noeira profile` of the MNIST network in a process of its own, several times; the round with the
fastest step counts. `lost` is what a launch takes above its floor, as a share of the whole step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from common import Table, common_parser, length, main, microseconds
from processes import clean_environment

BATCHES, QUICK = (1, 100, 1024), (100,)
# Launches that lose a smaller share of the step are one row together.
SHOWN = 0.005


def profile(
    network: str, batch: int, words: Iterable[str], options: argparse.Namespace
) -> dict[str, Any]:
    """What `noeira profile` says as JSON of one of our networks, of the round with the fastest
    step; words: more options of the command.
    """
    model = f"{Path(__file__).with_name('networks.py')}:{network}"
    command = [sys.executable, "-m", "noeira", "profile", model, "--json", *words]
    command += ["--batch", str(batch)]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    found = list[dict[str, Any]]()
    for _ in range(options.rounds):
        ended = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
        if ended.returncode:
            raise SystemExit(ended.stderr.strip())
        found.append(json.loads(ended.stdout))
    return min(found, key=lambda each: each["step"])


def table(batch: int, found: dict[str, Any]) -> Table:
    """A row for each launch that loses much, one for the others, and the whole."""
    launches, step = found["launches"], found["step"]
    losing = sorted(launches, key=lambda each: each["floor"] - each["median"])
    shown = [each for each in losing if each["median"] - each["floor"] >= SHOWN * step]
    rows = [
        row(
            f"{each['kernel']} ({each['path']})", each["median"], each["floor"], step, each["bound"]
        )
        for each in shown
    ]
    rest = losing[len(shown) :]
    if rest:
        took, floor = (sum(each[key] for each in rest) for key in ("median", "floor"))
        rows.append(row(f"{len(rest)} others", took, floor, step, ""))
    whole = sum(each["median"] for each in launches)
    rows.append(row("between launches", step - whole, 0.0, step, ""))
    rows.append(row("step", step, sum(each["floor"] for each in launches), step, ""))
    head = ("", "µs", "floor µs", "lost", "bound by")
    title = f"A training step at batch {batch}, {found['threads']} threads"
    return Table(title, head, tuple(rows), records=(found,))


def row(name: str, took: float, floor: float, step: float, bound: str) -> tuple[str, ...]:
    """A row of the table; what is lost is a share of the step."""
    lost = f"{100 * (took - floor) / step:.1f} %"
    return name, microseconds(took), microseconds(floor), lost, bound


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    length(parser, full=(5, 1.0), quick=(2, 0.5))
    return parser


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """One for each batch."""
    for batch in QUICK if options.quick else BATCHES:
        yield table(batch, profile("MLP", batch, ("--optimizer", "adam"), options))


if __name__ == "__main__":
    main(parser(), tables)
