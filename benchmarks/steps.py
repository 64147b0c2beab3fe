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
from collections.abc import Iterator

from common import Table, ask_for_priority, main
from networks import MLP, batch_of
from programs import Config, Programs, Work, measure, times

LAYERS = (784 * 256, 256 * 128, 128 * 10)
WORK = Work(LAYERS, sum(LAYERS) + 256 + 128 + 10, moments=2)
CONFIGS = {
    config.name: config
    for config in (
        Config("mlp_b1", 1, WORK),
        Config("mlp_b100", 100, WORK),
        Config("mlp_b1024", 1024, WORK),
        Config("mlp_infer_b1", 1, WORK, trains=False),
        Config("mlp_infer_b100", 100, WORK, trains=False),
    )
}
STEPS = Programs(
    __file__,
    CONFIGS,
    quick=("mlp_b1", "mlp_b100", "mlp_infer_b1"),
    trained_by=("torch:eager_fused", "torch:compile", "jax:jit", "tinygrad:jit"),
    inferred_by=("torch:eager", "torch:compile", "jax:jit", "tinygrad:jit"),
    title="Training steps and forward passes of 784-256-128-10",
)


def one(name: str, seconds: float) -> None:
    """Measure ours in this process."""
    ask_for_priority()
    from noeira.nn import Adam

    config = CONFIGS[name]
    measure(config, MLP, Adam(lr=1e-3), batch_of(config.batch), seconds)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """A row for each configuration."""
    measured = {config: STEPS.outcomes(config, options) for config in STEPS.chosen(options)}
    yield times(STEPS, measured, options)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return STEPS.parser(__doc__)


if __name__ == "__main__":
    main(parser(), tables, one)
