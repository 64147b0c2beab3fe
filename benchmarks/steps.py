"""Training steps of the MNIST network, ours beside PyTorch's, JAX's and tinygrad's, in turn on the
same machine.

    python benchmarks/steps.py                                  ours alone
    python benchmarks/steps.py --peers FOLDER --python PYTHON   and the peers', in their own Python

FOLDER holds `torch_peer.py`, `jax_peer.py`, …: called as `NAME_peer.py CONFIG VARIANT`, each prints
a line `RESULT {json}` with the median, minimum and the share of the machine that others used. A
step is forward, loss, backward and optimizer on one fixed batch. Rounds are interleaved; the best
round of each side counts, since others may use the machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PEERS = ("torch:eager_fused", "jax:jit", "tinygrad:jit")
BATCHES = {"mlp_b1": 1, "mlp_b100": 100, "mlp_b1024": 1024}


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a step."""

    median: float
    minimum: float


def ours(batch: int, seconds: float) -> Timing:
    """Our step, called from Python with arrays that lie in memory."""
    import numpy as np

    import noeira
    from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential

    net = Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]
    program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(lr=1e-3), batch=batch)
    random = np.random.default_rng(0)
    x = random.random((batch, 784), np.float32)
    y = random.integers(0, 10, batch).astype(np.int32)
    times = list[float]()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        program.step(x, y)
        times.append(1e3 * (time.perf_counter() - started))
    kept = times[len(times) // 10 :]
    return Timing(statistics.median(kept), min(kept))


def in_a_process(batch: int, seconds: float) -> Timing:
    """Our step in a process of its own, as the peers'."""
    command = [sys.executable, __file__, "--one", str(batch), "--seconds", str(seconds)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    median, minimum = map(float, printed.split())
    return Timing(median, minimum)


def peer(folder: Path, python: str, name: str, config: str, seconds: float) -> Timing | None:
    """A peer's step; None if it cannot run here."""
    framework, variant = name.split(":")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment["BENCH_SECONDS"] = str(seconds)
    run = subprocess.run(
        [python, str(folder / f"{framework}_peer.py"), config, variant],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return None
    result = json.loads(lines[-1].removeprefix("RESULT "))
    return Timing(result["ms_med"], result["ms_min"])


def best(rounds: list[Timing | None]) -> Timing | None:
    """The round with the smallest median."""
    ran = [r for r in rounds if r is not None]
    return min(ran, key=lambda r: r.median) if ran else None


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", type=Path, help="folder of the peers' scripts")
    parser.add_argument(
        "--python", default=sys.executable, help="the Python the peers are installed in"
    )
    parser.add_argument("--names", default=",".join(PEERS), help="which peers, as NAME:VARIANT")
    parser.add_argument("--configs", default="mlp_b100", help=f"of {', '.join(BATCHES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        timing = ours(options.one, options.seconds)
        print(timing.median, timing.minimum)
        return
    names = options.names.split(",") if options.peers else []
    table: dict[str, dict[str, Timing | None]] = {}
    for config in options.configs.split(","):
        rounds: dict[str, list[Timing | None]] = {name: [] for name in ("noeira", *names)}
        for _ in range(options.rounds):
            rounds["noeira"].append(in_a_process(BATCHES[config], options.seconds))
            for name in names:
                rounds[name].append(
                    peer(options.peers, options.python, name, config, options.seconds)
                )
        table[config] = {name: best(found) for name, found in rounds.items()}
    if options.json:
        print(
            json.dumps({c: {n: t and vars(t) for n, t in row.items()} for c, row in table.items()})
        )
    else:
        print_table(table)


def print_table(table: dict[str, dict[str, Timing | None]]) -> None:
    """Medians and minima in milliseconds, and how much longer than ours each takes."""
    for config, row in table.items():
        own = row["noeira"]
        assert own is not None
        for name, timing in row.items():
            if timing is None:
                print(f"{config:10} {name:20} did not run")
                continue
            ratio = timing.median / own.median
            numbers = f"{timing.median:8.3f} ms  (min {timing.minimum:.3f})  {ratio:5.2f} x"
            print(f"{config:10} {name:20} {numbers}")


if __name__ == "__main__":
    main()
