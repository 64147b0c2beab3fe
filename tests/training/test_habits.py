"""What people who know PyTorch or Keras give first, as options and as data: each has a message that
says what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from says import says

import noeira
from noeira.errors import (
    CompositionError,
    DataError,
    DtypeError,
    NoeiraError,
    OptionError,
    ShapeError,
)
from noeira.nn import Adam, Conv2D, CrossEntropy, Group, Linear, ReLU, Sequential, ToNHWC
from noeira.training import EarlyStopping


class MLP(Sequential[Linear[8, 4], ReLU, Linear[4, 3]]):
    """A small network."""


NET: Any = MLP()
PROGRAM: Any = noeira.compile(NET, loss=CrossEntropy, optimizer=Adam, batch=4, target="reference")
TRAINER: Any = noeira.Trainer(MLP, batch=4, target="reference")
X, Y = np.ones((8, 8), np.float32), np.zeros(8, np.int32)
ONE_HOT = np.eye(3, dtype=np.float32)[Y]
PIXELS: Any = noeira.compile(
    Conv2D[2, 3, 1],
    loss=CrossEntropy,
    optimizer=Adam,
    batch=2,
    input=(2, 5, 6),
    target="reference",
)
IMAGES, IDS = np.ones((2, 2, 5, 6), np.float32), np.zeros((2, 5, 6), np.int32)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: NET(X),  # type: ignore[operator]
            CompositionError,
            "an instance of MLP is not called: a network runs once it is compiled: "
            "write noeira.compile(net).forward(x)",
        ),
        (
            lambda: CrossEntropy()(X, Y),  # type: ignore[operator]
            CompositionError,
            "an instance of CrossEntropy is not called: it is compiled with a network: "
            "noeira.compile(net, loss=CrossEntropy)",
        ),
        (
            lambda: PROGRAM(X),
            NoeiraError,
            "a program is not called: write program.forward(x)",
        ),
        (
            lambda: PROGRAM.forward(X, Y),
            ShapeError,
            "forward takes x alone, several inputs as a tuple, forward((a, b)); with targets "
            "there are step(x, y), gradients(x, y), and evaluate()",
        ),
        (
            lambda: Group(lr=1e-3),  # type: ignore[call-arg]
            OptionError,
            "Group has no option lr: write lr_factor=0.1, "
            "by which the lr of the optimizer is multiplied",
        ),
        (
            lambda: EarlyStopping(monitor="val_loss"),  # type: ignore[call-arg]
            OptionError,
            'EarlyStopping has no option monitor: write measure="test_loss"',
        ),
        (
            lambda: noeira.compile(MLP, 32),  # type: ignore[misc]
            OptionError,
            "compile(net, …) takes options by their names: write batch=32",
        ),
        (
            lambda: noeira.Trainer(MLP, CrossEntropy, Adam(lr=1e-3)),  # type: ignore[misc]
            OptionError,
            "Trainer(net, …) takes options by their names: "
            "write loss=CrossEntropy, optimizer=Adam(…)",
        ),
        (
            lambda: noeira.compile(MLP, lr=1e-3),  # type: ignore[call-arg]
            OptionError,
            "compile has no option lr: the optimizer has it: optimizer=Adam(lr=1e-3)",
        ),
        (
            lambda: noeira.compile(MLP, device="cuda"),  # type: ignore[call-arg]
            OptionError,
            'compile has no option device: write target="cuda"',
        ),
        (
            lambda: noeira.Trainer(MLP, clip_grad_norm=1.0),  # type: ignore[call-arg]
            OptionError,
            "Trainer has no option clip_grad_norm: write clip=ClipNorm(1.0)",
        ),
        (
            lambda: noeira.Trainer(MLP, epochs=5),  # type: ignore[call-arg]
            OptionError,
            "Trainer has no option epochs: fit takes it: Trainer(…).fit(train, epochs=5)",
        ),
        (
            lambda: TRAINER.fit((X, Y), batch_size=32),
            OptionError,
            "fit has no option batch_size: Trainer takes it: Trainer(…, batch=32)",
        ),
        (
            lambda: TRAINER.fit((X, Y), validation_data=(X, Y)),
            OptionError,
            "fit has no option validation_data: write test=(x, y)",
        ),
        (
            lambda: TRAINER.fit((X, Y), epoch=3),
            OptionError,
            "fit has no option epoch; it has train, test, epochs, shuffle, progress, "
            "evaluate_every, stop, callbacks, folder, resume, save_every, best, tensorboard, plot; "
            "did you mean epochs?",
        ),
        (
            lambda: TRAINER.fit((X, Y), callbacks=EarlyStopping(patience=3)),
            OptionError,
            "EarlyStopping is no callback, it has an option of its own: "
            "write stop=EarlyStopping(…)",
        ),
    ],
)
def test_calls_and_options(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    says(make, message, kind)


PAIR = "must have .x and .y, such as MNIST().{0}, or be a pair (x, y)"
TRAIN = (
    f"train {PAIR.format('train')}, an iterable of such pairs, a batch each, or a function that "
    "gives one for the number of an epoch, not "
)
TEST = f"test {PAIR.format('test')}, not "
WEIGHTS = "several targets, or weights of samples, are a tuple: (x, (y, w))"
CLASSES = (
    "y has shape ({0}, 3), a number for each class, and the loss takes the number of the class: "
    "write y.argmax(1); SoftCrossEntropy takes shares of classes"
)
LAST = (
    "y has shape {0}, it must be {1}: the loss takes the classes of each place last: "
    "end the network with ToNHWC"
)


class TensorDataset:
    """PyTorch's, as far as it is looked at."""

    tensors = (X, Y)


class DataLoader:
    """PyTorch's, as far as it is looked at."""

    dataset = TensorDataset()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: PROGRAM.step(X[:4], ONE_HOT[:4]), ShapeError, CLASSES.format(4)),
        (lambda: PROGRAM.step(X[:4], ONE_HOT[:4].astype("i8")), ShapeError, CLASSES.format(4)),
        (lambda: TRAINER.fit((X, ONE_HOT)), ShapeError, CLASSES.format(8)),
        (lambda: PIXELS.step(IMAGES, IDS), ShapeError, LAST.format("(2, 5, 6)", "(2, 3, 5)")),
        (lambda: PIXELS.load(IMAGES, IDS), ShapeError, LAST.format("(2, 5, 6)", "(N, 3, 5)")),
        (lambda: TRAINER.fit((X, Y, Y)), DataError, f"{TRAIN}a tuple of 3; {WEIGHTS}"),
        (lambda: TRAINER.fit((X,)), DataError, f"{TRAIN}a tuple of 1; its targets are missing"),
        (lambda: TRAINER.fit((X, Y), (X, Y, Y)), DataError, f"{TEST}a tuple of 3; {WEIGHTS}"),
        (
            lambda: TRAINER.fit([(X[:4], Y[:4], Y[:4])]),
            DataError,
            f"batch 0 of epoch 1 of train must be a pair (x, y), not a tuple of 3; {WEIGHTS}",
        ),
        (
            lambda: TRAINER.fit([(X[:4],)]),
            DataError,
            "batch 0 of epoch 1 of train must be a pair (x, y), not a tuple of 1; "
            "its targets are missing",
        ),
        (
            lambda: TRAINER.fit(TensorDataset()),
            DataError,
            f"{TRAIN}TensorDataset: give its arrays, train.tensors",
        ),
        (
            lambda: TRAINER.fit((X, Y), DataLoader()),
            DataError,
            f"{TEST}DataLoader, which gives batches: give all its arrays, test.dataset.tensors",
        ),
        (
            lambda: TRAINER.predict(SimpleNamespace(x=X, y=Y)),
            DtypeError,
            "x is a SimpleNamespace, not an array: give its inputs alone, .x",
        ),
        (
            lambda: TRAINER.fit((X.reshape(8, 4, 2), Y)),
            ShapeError,
            "MLP takes (*, 8), not (4, 2); samples of 8 numbers in a row are x.reshape(len(x), -1)",
        ),
        (
            lambda: PROGRAM.forward(X.reshape(8, 4, 2)),
            ShapeError,
            "x has shape (8, 4, 2), it must be (N, 8): write x.reshape(len(x), -1)",
        ),
    ],
)
def test_data(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    says(make, message, kind)


def test_what_messages_say_works() -> None:
    """The advice about values and data, as code."""
    assert np.isfinite(PROGRAM.step(X[:4], ONE_HOT[:4].argmax(1)))
    assert PROGRAM.forward(X.reshape(8, 4, 2).reshape(len(X), -1)).shape == (8, 3)
    assert Sequential[Conv2D[2, 3, 1], ToNHWC].gives((2, 5, 6)) == (5, 6, 3)
    assert NET.parameter("0.weight").grd.shape == NET.parameter("0.weight").val.shape
    assert noeira.nn.StepDecay(epochs=30, gamma=0.1).epochs == 30
    noeira.nn.Cosine(epochs=20), noeira.nn.OneCycle(steps=5000), noeira.nn.Warmup(steps=500)
    noeira.nn.Polynomial(steps=1000), noeira.nn.ClipValue(0.5), EarlyStopping(least=0.001)
