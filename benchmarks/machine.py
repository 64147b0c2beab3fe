"""The machine that a benchmark runs on: what it is, and what it can do at best.

python benchmarks/machine.py
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

from common import Table, Timing, Watch, common_parser, digits, main, timing_of, undisturbed

from noeira.machine.cache_sizes import CPU, data_caches
from noeira.machine.limits import Limits, measure_limits
from noeira.machine.processor import processor_name
from noeira.runtime.c.compiler import require_compiler

OWN_PACKAGES = ("noeira", "numpy")
PEERS_PACKAGES = ("torch", "jax", "tinygrad", "numpy", "scipy-openblas32", "onednn")
# Asked of the peers' Python, which need not have noeira.
ASK_VERSIONS = """
import platform, sys
from importlib.metadata import PackageNotFoundError, version
print("Python", platform.python_version())
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""


@dataclass(frozen=True)
class Measured:
    """Limits, and what others did meanwhile."""

    limits: Limits
    timing: Timing

    @classmethod
    def now(cls, threads: int) -> Measured:
        """Measure."""
        started = time.perf_counter()
        with Watch() as watch:
            found = measure_limits(threads)
        return cls(found, timing_of([time.perf_counter() - started], watch))


@cache
def limits(threads: int) -> Limits:
    """Peak and bandwidths, measured once a process, again while others disturb it."""
    return undisturbed(partial(Measured.now, threads)).limits


def fma_peak(threads: int, dtype: str = "f32") -> float:
    """Floating-point operations a second of multiply-adds that stay in registers."""
    return 1e9 * limits(threads).peak[dtype]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return common_parser(__doc__)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """The description, and the measured limits for one thread and for all."""
    rows = tuple(description(options))
    yield Table("The machine", ("", "what"), rows, records=(dict(rows),))
    yield limits_table(sorted({1, options.threads}))


def description(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Names and values."""
    compiler = require_compiler()
    yield "processor", f"{processor_name()}, {os.cpu_count()} processors, {compiler.isa.name}"
    yield "caches of a core", ", ".join(cache_texts()) or "unknown"
    yield "memory", memory_size()
    yield "system", platform.system()
    yield "compiler", compiler.version
    yield "flags", " ".join(compiler.flags)
    own = [f"{name} {installed(name)}" for name in OWN_PACKAGES]
    yield "ours", ", ".join([f"Python {platform.python_version()}", *own])
    if options.python:
        yield "peers", versions(options.python)


def cache_texts() -> Iterator[str]:
    """`L1 32K`, …"""
    for found in sorted(data_caches(CPU), key=lambda one: one.level):
        yield f"L{found.level} {found.bytes >> 10}K"


def memory_size() -> str:
    """In GiB."""
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def installed(name: str) -> str:
    """A package's version in this Python."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "from its folder"


def versions(python: str) -> str:
    """What another Python has of the peers."""
    command = [python, "-c", ASK_VERSIONS, *PEERS_PACKAGES]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{python} cannot be asked: {error}"
    return ", ".join(ended.stdout.split("\n")).strip(", ")


def limits_table(counts: list[int]) -> Table:
    """A column for each number of threads."""
    measured = [limits(threads) for threads in counts]
    rows = [
        (f"multiply-adds, {dtype}, GFLOP/s", *(digits(found.peak[dtype]) for found in measured))
        for dtype in ("f32", "f64")
    ]
    for kind in ("read", "copy"):
        rows += [
            (f"{kind} {places[0].level}, GB/s", *(digits(getattr(b, kind)) for b in places))
            for places in zip(*(found.bandwidths for found in measured), strict=True)
        ]
    rows.append(
        ("a call of all threads, ns", *(digits(1e9 * found.handover) for found in measured))
    )
    head = ("measured limit", *(f"{n} thread{'s' if n > 1 else ''}" for n in counts))
    notes = ("A copy counts the bytes read and the bytes written.",)
    return Table("What the machine can do at best", head, tuple(rows), notes)


if __name__ == "__main__":
    main(parser(), tables)
