"""How long a compile takes: programs cold and warm, and the passes on a deep network.

    python benchmarks/compile.py

Each start is a process of its own: cold with an empty cache, then warm. A program is everything a
training needs: step, gradients and forward, then the steps over a data set in memory, its smaller
last batch, and evaluation. Times are from the call to the program, with noeira and NumPy imported.

The networks tell depth from distinct kernels: blocks of one width share their kernels however many
there are, blocks of different widths have their own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from common import Table, common_parser, digits, length, main
from networks import MLP
from processes import clean_environment

START = """
import time
first = time.perf_counter()
import numpy as np
import noeira
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Repeat, Sequential

Net = {net}
x, y = np.zeros((60050, 784), "f4"), np.zeros(60050, "i4")
imported = time.perf_counter()
program = noeira.compile(Net, loss=CrossEntropy, optimizer=Adam(), batch=100)
compiled = time.perf_counter()
program.load(x, y, evaluation=(x[:10050], y[:10050]), shuffle=False)
loaded = time.perf_counter()
print(1e3 * (compiled - imported), 1e3 * (loaded - compiled), 1e3 * (imported - first))
"""
LAYERS = 330
PARTS = ("compile", "load", "total", "imports")
WIDTHS = (784, *range(512, 224, -24))


def equal_blocks(count: int) -> str:
    """A network of layers that are alike."""
    blocks = f"Repeat[{count}, LinearReLU[256, 256]]"
    return f"Sequential[LinearReLU[784, 256], {blocks}, Linear[256, 10]]"


def different_blocks() -> str:
    """A network of twelve layers, each of its own width."""
    layers = ", ".join(f"LinearReLU[{a}, {b}]" for a, b in pairwise(WIDTHS))
    return f"Sequential[{layers}, Linear[{WIDTHS[-1]}, 10]]"


NETWORKS = {
    "mlp": repr(MLP.__base__),
    "12 equal blocks": equal_blocks(12),
    "24 equal blocks": equal_blocks(24),
    "12 different blocks": different_blocks(),
}


def start(network: str, cache: str) -> list[float]:
    """Milliseconds of compile, of load, and of imports, in a process of its own."""
    printed = subprocess.run(
        [sys.executable, "-c", START.format(net=network)],
        env=clean_environment() | {"NOEIRA_CACHE": cache},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [float(word) for word in printed.split()]


def measure(network: str, rounds: int) -> list[dict[str, Any]]:
    """The medians of cold and of warm starts."""
    cold, warm = list[list[float]](), list[list[float]]()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(start(network, cache))
            warm.append(start(network, cache))
    rows = list[dict[str, Any]]()
    for name, runs in (("cold", cold), ("warm", warm)):
        compiled, loaded, imported = map(statistics.median, zip(*runs, strict=True))
        total = statistics.median(run[0] + run[1] for run in runs)
        times = {"compile": compiled, "load": loaded, "total": total, "imports": imported}
        rows.append({"start": name} | {f"{k}_ms": round(v, 1) for k, v in times.items()})
    return rows


def passes() -> tuple[int, float]:
    """Plain nodes of a deep network's training step, and milliseconds of all passes on them."""
    from noeira.compiler import run_passes
    from noeira.job import job_of
    from noeira.nn import MSE, Adam, LinearReLU, Repeat

    dump = job_of(Repeat[LAYERS, LinearReLU[8, 8]], batch=4, loss=MSE, optimizer=Adam()).step()
    started = time.perf_counter()
    graph = run_passes(dump).graph
    return sum(len(node.parts) for node in graph.nodes), 1e3 * (time.perf_counter() - started)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    length(parser, full=(5, 0.0), quick=(2, 0.0))
    return parser


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each network and kind of start; then the passes."""
    networks = dict(list(NETWORKS.items())[:1]) if options.quick else NETWORKS
    # The first start writes Python's bytecode.
    with tempfile.TemporaryDirectory() as cache:
        start(NETWORKS["mlp"], cache)
    records: list[dict[str, Any]] = [
        {"network": name, **record}
        for name, network in networks.items()
        for record in measure(network, options.rounds)
    ]
    rows = tuple(
        (f"{r['network']}, {r['start']}", *(digits(r[f"{key}_ms"]) for key in PARTS))
        for r in records
    )
    yield Table("Starts: median ms", ("", *PARTS), rows, records=tuple(records))
    runs = [passes() for _ in range(options.rounds)]
    nodes, taken = runs[0][0], statistics.median(ms for _, ms in runs)
    row = f"all passes on {nodes:,} nodes", digits(taken)
    yield Table("Passes", ("", "ms"), (row,), records=({"nodes": nodes, "ms": taken},))


if __name__ == "__main__":
    main(parser(), tables)
