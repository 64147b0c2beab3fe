"""Training goes on where it stopped: with data in other objects, an epoch at a time, restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.graph import Value
from noeira.nn import SGD, CrossEntropy, Linear, LinearReLU, Module, Scope, Sequential

Net = Sequential[LinearReLU[784, 64], Linear[64, 10]]


class Fresh:
    """A data set that makes its arrays each time that it is asked."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.numbers = random.standard_normal((47, 784)).astype("f4")
        self.classes = random.integers(0, 10, 47)

    @property
    def x(self) -> np.ndarray:
        return self.numbers * 2

    @property
    def y(self) -> np.ndarray:
        return self.classes + 0


def two_inputs() -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Samples of two inputs, in a tuple that is made anew."""
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 47, 784)).astype("f4")
    return (a, b), random.integers(0, 10, 47)


class Two(Module):
    """A classifier of the sum of two inputs."""

    signature = "(784), (784) -> (10)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("linear", Linear[784, 10]),)

    @classmethod
    def trace(cls, scope: Scope, a: Value, b: Value) -> Value:
        return scope.child("linear", Linear[784, 10]).run(a + b)


@pytest.mark.parametrize(
    ("net", "make"), [(Net, Fresh), (Two, two_inputs)], ids=["new arrays", "new tuples"]
)
def test_a_second_fit_goes_on_with_the_same_data_in_other_objects(
    net: type[Module], make: Callable[[], Any]
) -> None:
    def fitted(parts: list[int], tested: int) -> bytes:
        """Weights after fits of so many epochs, the last `tested` of them with test data."""
        trainer = noeira.Trainer(net, batch=10, seed=3)
        for index, epochs in enumerate(parts):
            test = make() if index >= len(parts) - tested else None
            trainer.fit(make(), test, epochs=epochs, progress=False)
        return trainer.program.store.arrays["params"].tobytes()

    whole = fitted([3], 0)
    assert fitted([1, 2], 0) == whole
    assert fitted([1, 1, 1], 1) == whole and fitted([1, 2], 2) == whole


def test_a_restored_trainer_goes_on(tmp_path: Path) -> None:
    x, y = Fresh().x, Fresh().y
    whole, half, resumed = (noeira.Trainer(Net, batch=10, seed=seed) for seed in (3, 3, 4))
    expected = whole.fit((x, y), epochs=2, progress=False).epochs[1].loss
    half.fit((x, y), epochs=1, progress=False)
    half.program.save(tmp_path / "half.safetensors")
    resumed.restore(tmp_path / "half.safetensors")
    assert resumed.fit((x, y), epochs=1, progress=False).loss == expected
    assert (
        resumed.program.params["0.weight"].tobytes() == whole.program.params["0.weight"].tobytes()
    )


def test_another_order_of_the_same_data_begins_at_its_beginning() -> None:
    x, y = Fresh().x, Fresh().y
    program = noeira.compile(Net, loss=CrossEntropy, optimizer=SGD(lr=0.0), batch=10)
    program.load(x, y)
    program.steps(2)
    program.load(x, y, shuffle=False)
    assert program.steps(1) == pytest.approx(program.gradients(x[:10], y[:10]), rel=1e-6)


def test_epochs_are_given_one_by_one() -> None:
    x, y = Fresh().x, Fresh().y
    done, steps = [], list[int]()
    one, other = (noeira.Trainer(Net, batch=10, seed=3) for _ in range(2))
    for epoch in one.epochs((x, y), (x, y)):
        done.append(epoch)
        one.program.lr *= 0.5
        if len(done) == 3:
            break
    for lr in (1e-3, 5e-4, 2.5e-4):
        if other.made is not None:
            other.program.lr = lr
        expected = other.fit((x, y), (x, y), epochs=1, progress=False).epochs[0]
        found = done.pop(0)
        assert (found.loss, found.test_loss, found.metrics) == (
            expected.loss,
            expected.test_loss,
            expected.metrics,
        )
    # What ends training early leaves no record of an epoch, and the next one is the rest of it.
    stops = one.epochs((x, y), between=lambda did: bool(steps.append(did)) or sum(steps) >= 2)
    assert list(stops) == [] and sum(steps) >= 2
    assert one.program.loaded().epoch == (3 if sum(steps) < 5 else 4)
