"""Trains a multi-layer perceptron on MNIST: the type, the trainer, the accuracy, and what was
launched.
"""

from __future__ import annotations

import argparse

import noeira
from noeira.datasets import MNIST
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential

# The accuracy that a run must reach: on the full data set, and on the 5,000 images that the package
# ships.
GOALS = {"full": 0.975, "shipped": 0.935}
EPOCHS = {"full": 5, "shipped": 20}


class MLP(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """MNIST classifier."""


def main() -> None:
    """Train, and say how well it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--epochs", type=int, help="passes over the data; default 5, or 20 on the shipped subset"
    )
    parser.add_argument("--seed", type=int, default=0, help="of initial values and data order")
    parser.add_argument(
        "--explain", action="store_true", help="also print what one training step launches"
    )
    parser.add_argument("--target", default="cpu", help="cpu, cuda or cuda-cpu (default: cpu)")
    options = parser.parse_args()

    mnist = MNIST()
    trainer = noeira.Trainer(
        MLP,
        batch=100,
        loss=CrossEntropy,
        optimizer=Adam(lr=1e-3),
        seed=options.seed,
        target=options.target,
    )
    epochs = options.epochs or EPOCHS[mnist.source.kind]
    result = trainer.fit(mnist.train, mnist.test, epochs=epochs)
    if options.explain:
        print(noeira.explain(MLP, batch=100))
    print(result)
    goal = GOALS[mnist.source.kind]
    if options.epochs is None and not result.interrupted and (result.accuracy or 0) < goal:
        raise SystemExit(f"expected at least {100 * goal:.1f} %")


if __name__ == "__main__":
    main()
