"""How long a compile takes: the MNIST program, cold and warm, and the passes on a deep network.

    python benchmarks/compile.py

Each start is a process of its own: cold with an empty cache, then warm. A program is everything a
training needs: step, smaller last batch, evaluation. Times are from the call to the program, with
noeira and NumPy imported, and for warm starts also from before the import.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

START = """
import time
first = time.perf_counter()
import numpy as np
import noeira
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential

Net = Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]
x, y = np.zeros((60050, 784), "f4"), np.zeros(60050, "i4")
imported = time.perf_counter()
program = noeira.compile(Net, loss=CrossEntropy, optimizer=Adam(), batch=100)
compiled = time.perf_counter()
program.load(x, y, evaluation=(x[:10050], y[:10050]), shuffle=False)
loaded = time.perf_counter()
print(1e3 * (compiled - imported), 1e3 * (loaded - compiled), 1e3 * (imported - first))
"""
LAYERS = 330


def start(cache: str) -> list[float]:
    """Milliseconds of compile, of load, and of imports, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    printed = subprocess.run(
        [sys.executable, "-c", START],
        env=environment | {"NOEIRA_CACHE": cache},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [float(word) for word in printed.split()]


def passes() -> tuple[int, float]:
    """Plain nodes of a deep network's training step, and milliseconds of all passes on them."""
    from noeira.compiler import run_passes
    from noeira.job import Job
    from noeira.nn import MSE, Adam, LinearReLU, Repeat

    dump = Job(Repeat[LAYERS, LinearReLU[8, 8]], 4, MSE, Adam()).step()
    started = time.perf_counter()
    graph = run_passes(dump).graph
    return sum(len(node.parts) for node in graph.nodes), 1e3 * (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    cold, warm = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(start(cache))
            warm.append(start(cache))
    for name, runs in (("cold", cold), ("warm", warm)):
        compiled, loaded, imported = (
            statistics.median(column) for column in zip(*runs, strict=True)
        )
        print(
            f"{name}: step, gradients, forward {compiled:.0f} ms; "
            f"fit, last batch, evaluation {loaded:.0f} ms; imports before {imported:.0f} ms"
        )
    runs = [passes() for _ in range(options.rounds)]
    print(f"all passes on {runs[0][0]} nodes: {statistics.median(ms for _, ms in runs):.0f} ms")


if __name__ == "__main__":
    main()
