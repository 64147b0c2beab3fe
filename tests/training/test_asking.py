"""What a trainer is asked: predictions, evaluations, the confusion matrix, its report."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from trained import bits, samples, trainer

import noeira
from noeira.nn import MSE, SGD, BCEWithLogits, Linear, Sequential, Tanh
from noeira.training import ConfusionMatrix
from noeira.training.confusion import confusion_of

DATA = samples(47)


def test_predictions_of_any_number_of_rows() -> None:
    one = trainer()
    one.fit(DATA, epochs=2, progress=False)
    for rows in (1, 10, 47):
        expected = one.program.forward(DATA[0][:rows])
        np.testing.assert_array_equal(one.predict(DATA[0][:rows]), expected)
    # Before anything is trained, it is what the network begins as.
    fresh = trainer()
    assert fresh.predict(DATA[0]).shape == (47, 3)
    result = fresh.fit(DATA, epochs=2, progress=False)
    assert result.epochs and bits(fresh.program) == bits(one.program)


def test_evaluation_of_other_data_leaves_training_alone() -> None:
    one, plain = trainer(), trainer()
    test, other = samples(30, 1), [samples(rows, rows) for rows in (30, 17, 30)]
    asked = list[float]()

    def ask(epoch: noeira.training.Epoch) -> None:
        for data in other:
            found = one.evaluate(data)
            assert list(found) == ["loss", "accuracy"]
            right = one.predict(data[0]).argmax(1) == data[1]
            assert found["accuracy"] == pytest.approx(right.mean())
            asked.append(found["loss"])

    result = one.fit(DATA, test, 3, callbacks=[ask], progress=False)
    expected = plain.fit(DATA, test, 3, progress=False)
    assert [e.test_loss for e in result.epochs] == [e.test_loss for e in expected.epochs]
    assert len(asked) == 9 and bits(one.program) == bits(plain.program)
    assert one.evaluate(test)["loss"] == result.epochs[-1].test_loss


def test_the_confusion_matrix_counts() -> None:
    one = trainer()
    one.fit(DATA, epochs=2, progress=False)
    found, taken = one.confusion_matrix(DATA), one.predict(DATA[0]).argmax(1)
    expected = np.zeros((3, 3), np.int64)
    np.add.at(expected, (DATA[1], taken), 1)
    np.testing.assert_array_equal(found.array, expected)
    assert found.array.dtype == np.int64 and found.array.sum() == 47
    for index in range(3):
        assert found.recall[index] == (taken[DATA[1] == index] == index).mean()
        assert found.precision[index] == (DATA[1][taken == index] == index).mean()
    assert found.accuracy == (taken == DATA[1]).mean()


def test_the_matrix_as_text() -> None:
    array = np.array([[8, 2, 0], [0, 5, 0], [3, 0, 0]])
    matrix = ConfusionMatrix(array, ("cat", "dog", "newt"))
    assert str(matrix).splitlines() == [
        "true \\ found     cat     dog  newt   recall",
        "cat                8       2     0   80.0 %",
        "dog                0       5     0  100.0 %",
        "newt               3       0     0    0.0 %",
        "precision     72.7 %  71.4 %     -   72.2 %",
    ]
    assert matrix.text(30).splitlines() == [
        "3 classes, accuracy 72.2 %; confused most often:",
        "true  found  rows",
        "newt  cat       3",
        "cat   dog       2",
    ]
    assert matrix.confused(1) == [("newt", "cat", 3)]


def test_outputs_of_several_places_count_each() -> None:
    outputs = np.random.default_rng(0).standard_normal((4, 6, 3))
    y = outputs.argmax(-1)
    assert confusion_of(outputs, y, None).accuracy == 1.0


def test_what_was_refused_decides_no_shapes() -> None:
    options = {"batch": 10, "optimizer": SGD(lr=0.1), "target": "reference"}
    one = noeira.Trainer(Sequential[Tanh, Linear[5, 3]], **options)
    for ask in (one.predict, lambda x: one.evaluate((x, DATA[1]))):
        with pytest.raises(noeira.NoeiraError):
            ask(np.zeros((47, 2, 5)))
    assert one.fit(DATA, epochs=1, progress=False).epochs


@pytest.mark.parametrize(
    ("y", "names", "message"),
    [
        (DATA[1] + 1, None, "y must be class numbers from 0 to 2"),
        (DATA[1][:5], None, "y has shape (5,), it must be (47,)"),
        (
            DATA[1].astype("f4"),
            None,
            "y is float32; a confusion matrix needs class numbers, integers",
        ),
        (DATA[1], ["a", "b"], "there are 3 classes, and names has 2"),
    ],
)
def test_what_has_no_matrix(y: np.ndarray, names: Any, message: str) -> None:
    with pytest.raises(noeira.NoeiraError) as caught:
        trainer().confusion_matrix((DATA[0], y), names)
    assert str(caught.value) == message


def test_a_regression_has_no_matrix() -> None:
    one = noeira.Trainer(Linear[5, 1], loss=MSE, batch=10, optimizer=SGD(), target="reference")
    with pytest.raises(noeira.DataError) as caught:
        one.confusion_matrix((DATA[0], np.full((47, 1), 0.5, "f4")))
    assert str(caught.value) == (
        "y must be 0 or 1, the class that a row's one output is the logit of, not 0.5"
    )
    with pytest.raises(noeira.ShapeError, match=re.escape("it must be (47,) or (47, 1)")):
        one.confusion_matrix((DATA[0], np.zeros((47, 2), "f4")))


@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_one_logit_a_row_is_of_two_classes(dtype: str) -> None:
    one = noeira.Trainer(
        Linear[5, 1], loss=BCEWithLogits, batch=10, optimizer=SGD(), target="reference"
    )
    y = (DATA[1] == 1).astype(dtype)
    taken = one.predict(DATA[0])[:, 0] > 0
    expected = np.zeros((2, 2), np.int64)
    np.add.at(expected, (y.astype(int), taken.astype(int)), 1)
    assert (expected > 0).all()
    for shape in ((47,), (47, 1)):
        matrix = one.confusion_matrix((DATA[0], y.reshape(shape)), names=["no", "yes"])
        np.testing.assert_array_equal(matrix.array, expected)
    found = confusion_of(np.array([0.0, 1e-9, -1.0]), np.array([0, 1, 1]), None)
    np.testing.assert_array_equal(found.array, [[1, 0], [1, 1]])


def test_what_is_asked_must_be_a_pair() -> None:
    with pytest.raises(noeira.DataError) as caught:
        trainer().evaluate(DATA[0])
    assert str(caught.value) == (
        "data must have .x and .y, such as MNIST().test, or be a pair (x, y), not ndarray"
    )


def test_the_report_is_that_of_explain() -> None:
    one = trainer()
    expected = noeira.explain(one.given, batch=10, optimizer=SGD(lr=0.1))
    kernels = [launch.kernel for launch in expected.launches]
    assert [launch.kernel for launch in one.explain().launches] == kernels
    assert one.explain("forward").name == "sequential.forward"
    one.fit(DATA, epochs=1, progress=False)
    assert [launch.kernel for launch in one.explain().launches] == kernels
