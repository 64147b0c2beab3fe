"""Trains a convolutional network on CIFAR-10: images as bytes, a one-cycle schedule, the curve of
the losses.
"""

from __future__ import annotations

import argparse

import noeira
from noeira.datasets import CIFAR10
from noeira.nn import SGD, CifarCNN, CrossEntropy, OneCycle, Sequential, Standardize

EPOCHS, BATCH = 15, 128
# The test accuracy that a run of all epochs must reach.
GOAL = 0.65


class Net(Sequential[Standardize[CIFAR10.mean, CIFAR10.std], CifarCNN[10]]):
    """A classifier of images of bytes."""


def main() -> None:
    """Train, and say how well it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"default: {EPOCHS}")
    parser.add_argument("--seed", type=int, default=0, help="of initial values and data order")
    parser.add_argument("--target", default="cpu", help="cpu, cuda or cuda-cpu (default: cpu)")
    parser.add_argument("--folder", default="runs/cifar_cnn", help="of checkpoints, logs and curve")
    options = parser.parse_args()

    data = CIFAR10(raw=True)
    updates = options.epochs * -(-len(data.train) // BATCH)
    trainer = noeira.Trainer(
        Net,
        batch=BATCH,
        seed=options.seed,
        loss=CrossEntropy,
        optimizer=SGD(lr=0.05, momentum=0.9, weight_decay=5e-4),
        schedule=OneCycle(steps=updates),
        target=options.target,
    )
    # A run that was stopped goes on.
    result = trainer.fit(
        data.train,
        data.test,
        epochs=options.epochs,
        folder=options.folder,
        resume=True,
        plot=True,
    )
    print(f"the losses are drawn in {options.folder}/loss.png")
    print(result)
    finished = options.epochs >= EPOCHS and result.ended == "epochs"
    if finished and (result.accuracy or 0) < GOAL:
        raise SystemExit(f"expected at least {100 * GOAL:.0f} %")


if __name__ == "__main__":
    main()
