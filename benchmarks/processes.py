"""Runs that are processes of their own, in interleaved rounds: ours, a peer, another, ours …

A run prints a line `RESULT {json}` with `ms_med`, `ms_min`, `ms_p90`, `n`, and with `other_cpu` and
`steal`, the shares of the machine that others took while it measured. Peers are scripts in a folder
of the user's, `NAME_peer.py CONFIG VARIANT`, for a Python that has what they import.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Timing, combined, undisturbed

RESULT = "RESULT "
LIMIT_SECONDS = 180
MOST_CALLS = 1_000_000
# What this Python finds by its path is not for another one.
OTHER_PYTHON = {"PYTHONPATH": ""}


@dataclass(frozen=True)
class Run:
    """What a process printed."""

    timing: Timing
    record: Mapping[str, Any]


class Failed(Exception):
    """Says why there is no result."""


@dataclass(frozen=True)
class Side:
    """One of those that are compared: a command, and where it runs."""

    name: str
    command: tuple[str, ...]
    folder: Path | None = None
    variables: tuple[tuple[str, str], ...] = ()

    def run(self) -> Run:
        """Start the process and wait for its timing. Raises Failed."""
        return run_of(self.record())

    def record(self) -> dict[str, Any]:
        """Start the process and wait for what it prints. Raises Failed."""
        environment = clean_environment() | dict(self.variables)
        try:
            ended = subprocess.run(
                self.command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"no result after {LIMIT_SECONDS} s") from None
        except OSError as error:
            raise Failed(str(error)) from None
        lines = [line for line in ended.stdout.splitlines() if line.startswith(RESULT)]
        if lines:
            return json.loads(lines[-1].removeprefix(RESULT))
        message = ended.stderr.strip().splitlines() or [f"it ended with status {ended.returncode}"]
        raise Failed(message[-1][:160])


@dataclass(frozen=True)
class Outcome:
    """All rounds of a side: their runs in order, or why it has none."""

    name: str
    runs: tuple[Run, ...] = ()
    reason: str = ""

    @property
    def timing(self) -> Timing:
        """Of all rounds together."""
        return combined(run.timing for run in self.runs)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        if not self.runs:
            return {"name": self.name, "reason": self.reason}
        rounds = [dict(run.record) for run in self.runs]
        return {"name": self.name, **vars(self.timing), "rounds": rounds}


def run_of(record: Mapping[str, Any]) -> Run:
    """A printed result, its times in seconds."""
    median, minimum, p90 = (1e-3 * record[key] for key in ("ms_med", "ms_min", "ms_p90"))
    shares = (record.get(key, 0.0) for key in ("other_cpu", "steal", "used"))
    return Run(Timing(median, minimum, p90, record["n"], *shares), record)


def print_result(timing: Timing | None, **more: object) -> None:
    """What a process of ours prints; without a timing, that it cannot do what it was asked."""
    record = dict[str, object](n=0)
    if timing:
        record = {
            "ms_med": 1e3 * timing.median,
            "ms_min": 1e3 * timing.minimum,
            "ms_p90": 1e3 * timing.p90,
            "n": timing.calls,
            "other_cpu": round(timing.others, 4),
            "steal": round(timing.stolen, 4),
            "used": round(timing.used, 2),
        }
    print_record(record | more)


def print_record(record: Mapping[str, Any]) -> None:
    """A result of any kind."""
    print(RESULT + json.dumps(record), flush=True)


def clean_environment() -> dict[str, str]:
    """This process's environment without what slows others down or keeps them from caching."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("OPENBLAS_")
    }


def ours(script: str, *words: object, threads: int) -> Side:
    """A process of ours: a benchmark's own file with hidden options."""
    command = (sys.executable, script, *map(str, words), "--threads", str(threads))
    return Side("noeira", command, variables=(("NOEIRA_THREADS", str(threads)),))


def peer(name: str, config: str, seconds: float, options: argparse.Namespace) -> Side:
    """A peer's process; name: `torch:eager_fused`."""
    framework, _, variant = name.partition(":")
    script = f"{framework}_peer.py"
    variables = OTHER_PYTHON | {
        "BENCH_SECONDS": seconds,
        "BENCH_THREADS": options.threads,
        "BENCH_MAXSTEPS": MOST_CALLS,
    }
    texts = tuple((key, str(value)) for key, value in variables.items())
    return Side(
        name, (options.python or sys.executable, script, config, variant), options.peers, texts
    )


def interleaved(sides: Iterable[Side], rounds: int, tries: int = 4) -> list[Outcome]:
    """Every side once a round; a disturbed run is repeated at once, and the cleanest kept. A side
    that fails is not tried again.
    """
    runs: dict[Side, list[Run]] = {side: [] for side in sides}
    reasons: dict[Side, str] = {}
    for _ in range(rounds):
        for side in runs:
            if side in reasons:
                continue
            try:
                runs[side].append(undisturbed(side.run, tries))
            except Failed as failed:
                reasons[side] = str(failed)
    return [
        Outcome(side.name, tuple(found) if side not in reasons else (), reasons.get(side, ""))
        for side, found in runs.items()
    ]


class Worker:
    """A process that answers requests, a line of JSON each, and sleeps between them; so several can
    measure in turn without starting anew. It has started when it is made.
    """

    def __init__(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command,
            env=clean_environment() | dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def ask(self, **request: object) -> dict[str, Any]:
        """The answer. Raises Failed if the process has ended."""
        assert self.process.stdin
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next result that it prints."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(RESULT):
                return json.loads(line.removeprefix(RESULT))
        raise Failed(f"{self.name} ended with status {self.process.wait()}")

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def requests() -> Iterator[dict[str, Any]]:
    """What a worker is asked, until it is let go; says first that it has started."""
    print_record({})
    return map(json.loads, sys.stdin)


def reasons(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """A line for each side that could not run."""
    return tuple(f"{o.name} did not run: {o.reason}" for o in outcomes if not o.runs)
