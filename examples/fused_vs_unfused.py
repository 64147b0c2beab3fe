"""Trains the same network twice, once with fused types and once without: fewer launches, the same
bits.
"""

from __future__ import annotations

import time

import numpy as np

import noeira
from noeira.datasets import MNIST, Split
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Module, ReLU, Sequential

BATCH, STEPS = 100, 100


class Unfused(Sequential[Linear[784, 256], ReLU, Linear[256, 128], ReLU, Linear[128, 10]]):
    """One kernel for each layer and each activation."""


class Fused(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """One kernel for each layer with its activation."""


def train(net: type[Module], data: Split) -> tuple[list[float], list[bytes], float]:
    """The loss of every step, the parameters after the last, and the milliseconds of a step."""
    starts = range(0, BATCH * STEPS, BATCH)
    batches = [slice(start % len(data.x), start % len(data.x) + BATCH) for start in starts]
    program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(lr=1e-3), batch=BATCH)
    losses, seconds = list[float](), list[float]()
    for rows in batches:
        started = time.perf_counter()
        losses.append(program.step(data.x[rows], data.y[rows]))
        seconds.append(time.perf_counter() - started)
    parameters = [program.params[name].tobytes() for name in program.params]
    return losses, parameters, 1e3 * float(np.median(seconds))


def main() -> None:
    """Compare the two."""
    data = MNIST().train
    launches = {net: len(noeira.explain(net, batch=BATCH).launches) for net in (Unfused, Fused)}
    results = {net: train(net, data) for net in (Unfused, Fused)}
    for net, (losses, _, milliseconds) in results.items():
        print(
            f"{net.__name__:8} {launches[net]} launches  {milliseconds:.3f} ms a step  "
            f"loss {losses[0]:.6f} -> {losses[-1]:.6f}"
        )
    (plain_losses, plain_parameters, _), (fused_losses, fused_parameters, _) = results.values()
    # Each fused layer saves one launch forward (the activation) and one backward (its slope).
    assert launches[Unfused] - launches[Fused] == 4
    assert plain_losses == fused_losses
    assert plain_parameters == fused_parameters
    print(f"after {STEPS} steps every loss and every parameter has the same bits")


if __name__ == "__main__":
    main()
