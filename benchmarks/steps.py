"""Training steps and forward passes of the MNIST network, ours beside PyTorch's, JAX's, tinygrad's.

    python benchmarks/steps.py                                  ours alone
    python benchmarks/steps.py --peers FOLDER --python PYTHON   and the peers', in their own Python

FOLDER holds `torch_peer.py`, `jax_peer.py`, `tinygrad_peer.py`, called as `NAME_peer.py CONFIG
VARIANT`. A step is forward, loss, backward and Adam on one fixed batch of 784-256-128-10, called
from Python; it ends when the loss is a Python number. `infer` is `forward` on one fixed batch, one
number of its result read. Runs are processes of their own, in interleaved rounds.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

from common import (
    Table,
    ask_for_priority,
    common_parser,
    digits,
    length,
    main,
    milliseconds,
    one_of,
    percent,
    share_note,
    timed,
)
from machine import limits
from networks import MLP, batch_of
from processes import Outcome, interleaved, ours, peer, print_result, reasons

from noeira.machine.limits import Limits

LAYERS = (784 * 256, 256 * 128, 128 * 10)
PARAMETERS = sum(LAYERS) + 256 + 128 + 10
TRAINED_BY = ("torch:eager_fused", "torch:compile", "jax:jit", "tinygrad:jit")
INFERRED_BY = ("torch:eager", "torch:compile", "jax:jit", "tinygrad:jit")

# Those that start in seconds.
QUICK_PEERS = ("torch:eager", "jax:")
QUICK = ("mlp_b1", "mlp_b100", "mlp_infer_b1")


@dataclass(frozen=True)
class Config:
    """What is measured."""

    name: str
    batch: int
    trains: bool = True

    @property
    def flops(self) -> int:
        """Of the matrix products alone: three a layer in training, the first layer's input
        gradient left out.
        """
        forward = 2 * self.batch * sum(LAYERS)
        return 3 * forward - 2 * self.batch * LAYERS[0] if self.trains else forward

    def floor(self, limits: Limits) -> float:
        """The least seconds: the products, at the peak or as fast as their weights can be moved,
        and after them the optimizer, which moves parameters, gradients and two moments.
        """
        size = 4 * PARAMETERS
        if not self.trains:
            return limits.floor_seconds(self.flops, size)
        state = 4 * size
        products = limits.floor_seconds(self.flops, 2 * size, size, working_set=state)
        return products + limits.floor_seconds(0, 4 * size, 3 * size, working_set=state)


CONFIGS = {
    config.name: config
    for config in (
        Config("mlp_b1", 1),
        Config("mlp_b100", 100),
        Config("mlp_b1024", 1024),
        Config("mlp_infer_b1", 1, trains=False),
        Config("mlp_infer_b100", 100, trains=False),
    )
}


def measure(name: str, seconds: float) -> None:
    """Measure ours in this process, and print the result as a peer does."""
    config = CONFIGS[name]
    ask_for_priority()
    import noeira
    from noeira.nn import Adam, CrossEntropy

    x, y = batch_of(config.batch)
    started = time.perf_counter()
    if config.trains:
        adam = Adam(lr=1e-3)
        program = noeira.compile(MLP, loss=CrossEntropy, optimizer=adam, batch=config.batch)
        call = lambda: program.step(x, y)  # noqa: E731
    else:
        program = noeira.compile(MLP, batch=config.batch)
        call = lambda: float(program.forward(x)[0, 0])  # noqa: E731
    call()
    first = time.perf_counter() - started
    timing = timed(call, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print_result(timing, first_step_s=first, rss_peak_mb=peak)


def outcomes(config: Config, options: argparse.Namespace) -> list[Outcome]:
    """Ours first, then the peers."""
    words = "--one", config.name, "--seconds", options.seconds
    sides = [ours(__file__, *words, threads=options.threads)]
    sides += [peer(n, config.name, options.seconds, options) for n in peers_of(config, options)]
    found = interleaved(sides, options.rounds)
    if not found[0].runs:
        raise SystemExit(f"{config.name}: {reasons(found)[0]}")
    return found


def peers_of(config: Config, options: argparse.Namespace) -> list[str]:
    """The peers to run, as NAME:VARIANT."""
    if not options.peers:
        return []
    if options.names:
        return options.names.split(",")
    names = TRAINED_BY if config.trains else INFERRED_BY
    return [n for n in names if not options.quick or n.startswith(QUICK_PEERS)]


def row(
    config: Config, found: list[Outcome], columns: list[str], limits: Limits
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


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each configuration."""
    can = limits(options.threads)
    names = options.configs.split(",") if options.configs else QUICK if options.quick else CONFIGS
    chosen = [CONFIGS[name] for name in names]
    measured = {config: outcomes(config, options) for config in chosen}
    columns = list(dict.fromkeys(o.name for found in measured.values() for o in found if o.runs))
    ratio = ["best peer / noeira"] if len(columns) > 1 else []
    rows = tuple(row(config, found, columns, can) for config, found in measured.items())
    everything = [o for found in measured.values() for o in found]
    notes = [
        share_note(o.timing for o in everything if o.runs),
        *(f"{c.name}: {line}" for c, found in measured.items() for line in reasons(found)),
    ]
    yield Table(
        f"Training steps and forward passes of 784-256-128-10, {options.threads} threads: "
        f"median ms (minimum)",
        ("", *columns, *ratio, "GFLOP/s", "floor", "reached"),
        rows,
        tuple(notes),
        tuple({"config": c.name, **o.record()} for c, found in measured.items() for o in found),
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    parser.add_argument("--names", help="which peers, as NAME:VARIANT,…")
    parser.add_argument("--configs", help=f"of {', '.join(CONFIGS)}; default: all")
    length(parser, full=(3, 3.0), quick=(1, 1.0))
    one_of(parser, CONFIGS)
    return parser


if __name__ == "__main__":
    main(parser(), tables, measure)
