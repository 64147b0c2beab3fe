"""Training on batches that come one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from stateful_layers import Noise
from trained import bits, samples, trainer

import noeira
from noeira.nn import SGD, Adam, ClipNorm, CrossEntropy, Linear, Sequential, Tanh


class ByDLPack:
    """An array of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape

    def __len__(self) -> int:
        return len(self.array)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def cut(data: tuple[np.ndarray, np.ndarray], rows: int = 10) -> list[Any]:
    """Batches of so many rows, the last one perhaps smaller."""
    x, y = data
    return [(x[i : i + rows], y[i : i + rows]) for i in range(0, len(x), rows)]


Noisy = Sequential[Linear[5, 8], Noise, Linear[8, 3]]


@pytest.mark.parametrize(
    "target", ["cpu", "reference", pytest.param("cuda-cpu", marks=pytest.mark.slow)]
)
def test_batches_train_as_loaded_data_do(target: str) -> None:
    data, test = ((x.astype("f8"), y) for x, y in (samples(47), samples(20, 1)))
    options: Any = {"batch": 10, "optimizer": Adam(lr=1e-2), "seed": 3, "dtype": "f64"}
    options |= {"target": target}
    loaded, streamed = (noeira.Trainer(Noisy, **options) for _ in range(2))
    expected = loaded.fit(data, test, 3, shuffle=False, progress=False)
    result = streamed.fit(cut(data), test, 3, progress=False)
    assert bits(streamed.program) == bits(loaded.program)
    for found, wanted in zip(result.epochs, expected.epochs, strict=True):
        assert found.loss == pytest.approx(wanted.loss, rel=1e-12)
        assert (found.samples, found.step, found.metrics) == (47, wanted.step, wanted.metrics)


def test_every_kind_of_iterable() -> None:
    batches = cut(samples(47))

    def generator() -> Iterator[Any]:
        yield from batches

    def of_epoch(epoch: int) -> Iterator[Any]:
        asked.append(epoch)
        yield from batches

    asked = list[int]()
    found = set[bytes]()
    others = [(ByDLPack(x), ByDLPack(y)) for x, y in batches]
    for train in (batches, tuple(batches), generator(), of_epoch, others):
        one = trainer()
        result = one.fit(train, epochs=1, progress=False)
        assert result.epochs[0].samples == 47
        found.add(bits(one.program))
    assert len(found) == 1
    trainer().fit(of_epoch, epochs=3, progress=False)
    assert asked == [0, 0, 1, 2]


def test_two_batches_in_a_list_are_no_pair() -> None:
    one = trainer()
    assert one.fit(cut(samples(20)), epochs=1, progress=False).epochs[0].step == 2


def test_evaluation_within_an_epoch_of_batches() -> None:
    result = trainer().fit(cut(samples(47)), samples(20), 2, evaluate_every=3, progress=False)
    assert [e.step for e in result.evaluations] == [3, 5, 6, 9, 10]


def test_an_epoch_without_end_by_hand() -> None:
    epochs = trainer().epochs(lambda number: cut(samples(30, number)))
    assert next(epochs).loss != next(epochs).loss


def test_an_iterator_is_asked_for_one_epoch() -> None:
    with pytest.raises(noeira.DataError) as caught:
        trainer().fit(iter(cut(samples(20))), epochs=2)
    assert str(caught.value) == (
        "train is a list_iterator, which gives its batches once, and there are 2 epochs: write "
        "epochs=1, give a list, or a function that gives the batches of an epoch by its number"
    )


def test_a_generator_is_gone_on_with(tmp_path: Any) -> None:
    def stops(step: Any) -> bool:
        return step.step == 2

    class Ends:
        on_step = staticmethod(stops)

    batches, one, whole = cut(samples(47)), trainer(), trainer()
    given: Any = {"epochs": 1, "folder": tmp_path, "progress": False}
    trainer().fit(iter(batches), callbacks=[Ends()], **given)
    result = one.fit(iter(batches), resume=True, **given)
    expected = whole.fit(batches, epochs=1, progress=False)
    assert bits(one.program) == bits(whole.program)
    assert result.epochs[0].loss == pytest.approx(expected.epochs[0].loss, rel=1e-12)
    with pytest.raises(noeira.DataError) as caught:
        shorter = batches[:1]
        (tmp_path / "other").mkdir()
        trainer().fit(batches, callbacks=[Ends()], **{**given, "folder": tmp_path / "other"})
        trainer().fit(shorter, resume=True, **{**given, "folder": tmp_path / "other"})
    assert str(caught.value) == (
        "train gives 1 batches in epoch 1, and training stopped after 2: give it the data that it "
        "was trained on"
    )


def test_a_source_that_fails_keeps_what_was_learned(tmp_path: Any) -> None:
    batches = cut(samples(40))

    def failing(epoch: int) -> Iterator[Any]:
        yield from batches[: 4 if epoch == 0 else 3]
        if epoch == 1:
            raise OSError("the disk is gone")

    one = trainer()
    with pytest.raises(noeira.DataError) as caught:
        one.fit(failing, epochs=5, folder=tmp_path / "run", progress=False)
    assert str(caught.value) == (
        "train failed at batch 3 of epoch 2: OSError: the disk is gone; what was learned before "
        "is kept"
    )
    # The batch before it is trained on only when what comes after it is known.
    whole, again = trainer(), trainer()
    whole.fit(batches, epochs=2, progress=False)
    result = again.fit(batches, epochs=2, folder=tmp_path / "run", resume=True, progress=False)
    assert bits(again.program) == bits(whole.program)
    assert [e.samples for e in result.epochs] == [40, 40]


def test_a_source_that_fails_leaves_no_trace_in_records(tmp_path: Any) -> None:
    batches, options = cut(samples(40)), {"clip": ClipNorm(0.5)}

    def failing(epoch: int) -> list[Any]:
        return [*batches[:3], None] if epoch == 1 else batches

    with pytest.raises(noeira.DataError):
        trainer(**options).fit(failing, epochs=2, folder=tmp_path, progress=False)
    again, whole = trainer(**options), trainer(**options)
    found = again.fit(batches, epochs=2, folder=tmp_path, resume=True, progress=False)
    expected = whole.fit(batches, epochs=2, progress=False)
    assert [e.samples for e in found.epochs] == [40, 40]
    assert [e.loss for e in found.epochs] == pytest.approx([e.loss for e in expected.epochs])
    norms = [e.grad_norm for e in expected.evaluations]
    assert [e.grad_norm for e in found.evaluations] == pytest.approx(norms)


X, Y = samples(30)
BAD = X.copy()
BAD[13, 2] = np.inf


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            [(X, Y)],
            "batch 0 of epoch 1 of train: it has 30 rows, and this trainer takes 10 at a time: "
            "Trainer(…, batch=30)",
        ),
        (
            [(X[:10], Y[:10]), (X[:7], Y[:7]), (X[:10], Y[:10])],
            "batch 1 of epoch 1 of train: it has 7 rows, not 10, and is not the last of its epoch, "
            "the only one that may be smaller: Trainer(…, batch=7), if all have so many",
        ),
        ([], "train gives no batches in epoch 1"),
        ([X[:10]], "batch 0 of epoch 1 of train must be a pair (x, y), not ndarray"),
        (
            [(X[:10], Y[:10].astype("f8"))],
            "batch 0 of epoch 1 of train: y is float64; it must be integers: write "
            "y.astype(np.int32)",
        ),
        (
            X,
            "train must have .x and .y, such as MNIST().train, or be a pair (x, y), an iterable of "
            "such pairs, a batch each, or a function that gives one for the number of an epoch, "
            "not ndarray",
        ),
        (
            [(X[:10], Y[:10]), (BAD[10:20], Y[10:20])],
            "the loss of step 2 is not finite: x[3, 2] of batch 1 of epoch 1 is inf; parameters, "
            "moments and counters are as they were before it",
        ),
        (
            [(X[:10], Y[:10]), (BAD[12:17], Y[12:17])],
            "the loss of step 2 is not finite: x[1, 2] of batch 1 of epoch 1 is inf; parameters, "
            "moments and counters are as they were before it",
        ),
    ],
)
def test_batches_that_cannot_be(train: Any, message: str) -> None:
    with pytest.raises(noeira.NoeiraError) as caught:
        trainer().fit(train, epochs=1, progress=False)
    assert str(caught.value) == message


def test_a_network_that_takes_any_shape_is_told_it_by_the_first_batch() -> None:
    one = noeira.Trainer(
        Sequential[Tanh, Linear[5, 3]],
        batch=10,
        loss=CrossEntropy,
        optimizer=SGD(lr=0.1),
        target="reference",
    )
    assert one.fit(cut(samples(20)), epochs=1, progress=False).loss is not None
