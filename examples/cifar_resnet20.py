"""Trains ResNet-20 on CIFAR-10 with random crops and flips: a one-cycle schedule, the curve of the
losses, and which classes are confused.
"""

from __future__ import annotations

import argparse

import noeira
from noeira.datasets import CIFAR10
from noeira.nn import (
    SGD,
    CrossEntropy,
    KaimingNormal,
    OneCycle,
    RandomCropFlip,
    ResNet20,
    Sequential,
    Standardize,
)

EPOCHS, BATCH = 10, 128
# The test accuracy that a run of all epochs must reach.
GOAL = 0.70

Pixels = Standardize[CIFAR10.mean, CIFAR10.std]


class Net(Sequential[Pixels, RandomCropFlip[4], ResNet20[10]]):
    """A classifier of images of bytes, which are cropped and flipped in training."""


def main() -> None:
    """Train, and say how well it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"default: {EPOCHS}")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random")
    parser.add_argument("--target", default="cpu", help="cpu, cuda or cuda-cpu (default: cpu)")
    parser.add_argument("--folder", default="runs/cifar_resnet20", help="of checkpoints and logs")
    options = parser.parse_args()

    data = CIFAR10(raw=True)
    updates = options.epochs * -(-len(data.train) // BATCH)
    trainer = noeira.Trainer(
        Net,
        batch=BATCH,
        loss=CrossEntropy,
        optimizer=SGD(lr=0.2, momentum=0.9, nesterov=True, weight_decay=5e-4),
        schedule=OneCycle(steps=updates, rise=0.2),
        init=KaimingNormal,
        seed=options.seed,
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
    print(trainer.confusion_matrix(data.test, data.classes))
    print(f"the losses are drawn in {options.folder}/loss.png")
    print(result)
    finished = options.epochs >= EPOCHS and result.ended == "epochs"
    if finished and (result.accuracy or 0) < GOAL:
        raise SystemExit(f"expected at least {100 * GOAL:.0f} %")


if __name__ == "__main__":
    main()
