"""A trainer before its first data: weights are put into its network, and it is asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained import Net, bits, samples, trainer

import noeira
from noeira.nn import SGD, Adam, CrossEntropy, Linear, NameMap, Sequential, Tanh
from noeira.nn.core.module import Module

DATA = samples(47)


def test_a_network_is_loaded_before_its_first_fit(tmp_path: Path) -> None:
    path, names = tmp_path / "body.safetensors", NameMap.of(Net, keep=["1.*"])
    source = trainer(seed=9)
    source.program.tensors.save(path, names=NameMap.of(Net))
    tuned, expected = trainer(), trainer().program
    tuned.program.tensors.load(path, names=names)
    assert tuned.program.params["0.weight"].tobytes() == source.program.params["0.weight"].tobytes()
    assert tuned.net is tuned.program.module
    expected.params["0.weight"] = source.program.params["0.weight"]
    expected.params["0.bias"] = source.program.params["0.bias"]
    assert bits(tuned.program) == bits(expected)
    tuned.fit(DATA, epochs=1, shuffle=False, progress=False)
    expected.load(*DATA, shuffle=False)
    expected.steps(5)
    assert bits(tuned.program) == bits(expected)


def test_asking_for_the_network_changes_nothing_of_training() -> None:
    asked, plain = trainer(), trainer()
    assert isinstance(asked.net, Module)
    for one in (asked, plain):
        one.fit(DATA, epochs=2, progress=False)
    assert bits(asked.program) == bits(plain.program)


def test_samples_of_another_shape_want_to_be_said() -> None:
    options: dict[str, Any] = {"batch": 10, "optimizer": SGD(), "target": "reference"}
    kind = Sequential[Tanh, Linear[5, 3]]
    one = noeira.Trainer(kind, loss=CrossEntropy, **options)
    assert one.net
    x, y = np.zeros((47, 2, 5), "f4"), np.zeros((47, 2), "i4")
    for call in (one.fit, one.evaluate):
        with pytest.raises(noeira.ShapeError) as caught:
            call((x, y))
        assert str(caught.value) == (
            "the samples are (2, 5), and the trainer's program is compiled for (5,): for these, "
            "write Trainer(…, input=(2, 5))"
        )
    # What does not fit the network at all is told of the array.
    with pytest.raises(noeira.ShapeError, match=r"^x has shape \(47, 4\), it must be \(N, 5\)$"):
        one.fit((np.zeros((47, 4), "f4"), y[:, 0]))
    # A file that is refused decides no shapes.
    fresh = noeira.Trainer(kind, loss=CrossEntropy, **options)
    with pytest.raises(noeira.CheckpointError):
        fresh.restore("missing.safetensors")
    assert fresh.fit((x, y), epochs=1, progress=False).epochs
    said = noeira.Trainer(kind, loss=CrossEntropy, input=(2, 5), **options)
    assert said.net and said.fit((x, y), epochs=1, progress=False).epochs
    with pytest.raises(noeira.ShapeError, match=r"^x has shape \(47, 5\), it must be \(N, 2, 5\)$"):
        said.fit((x[:, 0], y))


class Summed(Module):
    """The first three numbers of any, through a layer."""

    signature = "(A) -> (3)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("layer", Linear[1, 3]),)

    @classmethod
    def trace(cls, scope: Any, x: Any) -> Any:
        return scope.child("layer", Linear[1, 3]).run(x)


def test_an_open_shape_wants_data_or_input() -> None:
    one = noeira.Trainer(Summed, batch=10, target="reference")
    for ask in (lambda: one.program, lambda: one.net):
        with pytest.raises(noeira.DataError) as caught:
            ask()
        assert str(caught.value).startswith(
            "the trainer has no program yet, and no data to know the shape of a sample from: "
            "write Trainer(…, input=…), or call fit(train) first; Summed, (A) -> (3): A of (A) "
        )
    assert noeira.Trainer(Summed, batch=10, input=(1,), target="reference").net


def test_a_resumed_training_says_which_learning_rate_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer(optimizer=Adam(lr=1e-3)).fit(DATA, epochs=1, folder=tmp_path, progress=False)
    for rate, epochs in ((0.5, 2), (1e-3, 3)):
        one = trainer(optimizer=Adam(lr=rate))
        one.fit(DATA, epochs=epochs, folder=tmp_path, resume=True)
        said = capsys.readouterr().out.splitlines()
        line = (
            "the learning rate goes on at 0.001, as it was saved, not at 0.5; a callback may set "
            "trainer.program.lr"
        )
        assert (line in said) == (rate == 0.5) and one.program.lr == pytest.approx(1e-3)
