"""Memory of training steps: what the plan says, what the process takes, what a step allocates.

    python benchmarks/memory.py                                  ours alone
    python benchmarks/memory.py --peers FOLDER --python PYTHON   and the peers' whole processes

Each network is a process of its own, which first trains a tiny one so that all code is loaded. Then
`predicted` is what the plan says of arena, inputs, states and outputs, `grown` by how much the
process's resident memory grew until some steps had run, `of values` the arena's share of what it
would be if no two values shared memory; `faults` are pages that further steps touched for the first
time.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Table, common_parser, digits, length, main, one_of, percent
from processes import Failed, ours, peer, print_record

PEERS = ("torch:eager_fused", "jax:jit", "tinygrad:jit")
# Rows of a batch; a peer's configuration of that name is the same network.
NETWORKS = {
    "mlp_b1": 1,
    "mlp_b100": 100,
    "mlp_b1024": 1024,
    "deep_b1024": 1024,
}
QUICK = ("mlp_b100", "deep_b1024")
STEPS = {"deep_b1024": 10}
MEBIBYTE = 1 << 20


def network(name: str) -> tuple[Any, int]:
    """The type of a network, and the width of its input."""
    from networks import MLP, Deep

    return (MLP, 784) if name.startswith("mlp") else (Deep, 1024)


def trained(net: Any, width: int, batch: int) -> tuple[Any, Any, Any]:
    """A program that has made some steps, and its batch."""
    from networks import batch_of

    import noeira
    from noeira.nn import Adam, CrossEntropy

    x, y = batch_of(batch, width)
    program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), batch=batch)
    for _ in range(3):
        program.step(x, y)
    return program, x, y


def resident_bytes() -> int:
    """Memory of this process that is in use now. Raises OSError where the system does not say."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def measure(name: str) -> dict[str, Any]:
    """All numbers of a network, in bytes."""
    from noeira.nn import Linear, LinearReLU, Sequential

    trained(Sequential[LinearReLU[16, 16], Linear[16, 10]], 16, 16)
    net, width = network(name)
    before = resident_bytes()
    program, x, y = trained(net, width, NETWORKS[name])
    grown = resident_bytes() - before
    steps = STEPS.get(name, 1000)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        program.step(x, y)
    used = resource.getrusage(resource.RUSAGE_SELF)
    plan = program.plans["step"]
    places = [place.size for place in plan.places if place.kind == "arena"]
    return {
        "predicted": plan.peak_bytes(),
        "grown": grown,
        "arena": plan.arena,
        "values": sum(places) + sum(call.choice.workspace for call in plan.calls),
        "faults": used.ru_minflt - faults,
        "steps": steps,
        "peak": 1024 * used.ru_maxrss,
    }


def peaks(name: str, options: argparse.Namespace) -> dict[str, float | str]:
    """Bytes of each peer's process at its largest, or why it did not run."""
    found = dict[str, float | str]()
    for each in PEERS if options.peers and name.startswith("mlp") else ():
        try:
            record = peer(each, name, options.seconds, options).record()
            found[each] = MEBIBYTE * record["rss_peak_mb"]
        except Failed as failed:
            found[each] = str(failed)
    return found


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each network."""
    names = QUICK if options.quick else tuple(NETWORKS)
    records = [measured(name, options) for name in names]
    peers = list(dict.fromkeys(each for record in records for each in record["peers"]))
    head = ("", "predicted", "grown", "arena", "of values", "faults", "process", *peers)
    notes = [
        f"{record['network']}: {each} did not run: {why}"
        for record in records
        for each, why in record["peers"].items()
        if isinstance(why, str)
    ]
    notes.append(
        "process: the largest the whole process ever was, libraries and all, as the peers'."
    )
    rows = tuple(row(record, peers) for record in records)
    yield Table("Memory of training steps, MiB", head, rows, tuple(notes), tuple(records))


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The record of a network, ours in a process of its own."""
    try:
        record = ours(__file__, "--one", name, threads=options.threads).record()
    except Failed as failed:
        raise SystemExit(f"{name}: {failed}") from None
    return {"network": name, **record, "peers": peaks(name, options)}


def row(record: dict[str, Any], peers: list[str]) -> tuple[str, ...]:
    """A network's numbers as text."""
    predicted, grown, arena, process = (
        digits(record[key] / MEBIBYTE) for key in ("predicted", "grown", "arena", "peak")
    )
    found = [record["peers"].get(each) for each in peers]
    cells = [digits(n / MEBIBYTE) if isinstance(n, float) else "–" for n in found]
    share = percent(record["arena"] / record["values"])
    faults = f"{record['faults']} in {record['steps']} steps"
    return record["network"], predicted, grown, arena, share, faults, process, *cells


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    one_of(parser, NETWORKS)
    length(parser, full=(1, 1.0), quick=(1, 0.5))
    return parser


if __name__ == "__main__":
    main(parser(), tables, lambda name, seconds: print_record(measure(name)))
