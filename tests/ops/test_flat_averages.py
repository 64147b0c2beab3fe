"""Averages of parameters over steps, and gradients added up over batches: against PyTorch's
`AveragedModel` and the gradient of one large batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from stepped import DTYPES, TARGETS, Stepped, update_case
from sweep import Case

from noeira.ir.layouts import Range

SIZE, DECAY = 331, 0.9
RANGES = (Range(0, 96), Range(128, 331, (("decay", 0.5),)))


def average_case(dtype: str, **attrs: Any) -> Case:
    """A moving average."""
    return update_case("moving_average", SIZE, dtype, {"decay": DECAY, **attrs}, 0)


def gathering_case(weight: float, mean: bool, dtype: str = "f64") -> Case:
    """Gradients added up."""
    attrs = {"weight": weight, "mean": mean}
    return update_case("accumulate_gradients", SIZE, dtype, attrs, 0)


AVERAGES = {dtype: average_case(dtype) for dtype in DTYPES}
POLYAK, PARTLY = average_case("f64", from_first=False), average_case("f64", ranges=RANGES)
# Batches of unequal numbers of samples; the last ends in the mean.
ROWS = (25, 7, 40)
GATHERED = tuple(gathering_case(float(rows), mean=rows == ROWS[-1]) for rows in ROWS)
STEPPED = Stepped((*AVERAGES.values(), POLYAK, PARTLY, *GATHERED))
each_target = pytest.mark.parametrize("target", TARGETS)


def averaged(
    target: str, case: Case, average: np.ndarray, value: np.ndarray, step: int
) -> np.ndarray:
    """The next average."""
    given = {"average": average, "value": value, "step": np.asarray(step, "i8")}
    return STEPPED.run(target, case, given | {"ok": np.asarray(True)})["average"]


@needs_compiler
@each_target
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_average_is_that_of_pytorch(dtype: str, target: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    swa = torch.optim.swa_utils
    model = torch.nn.Linear(SIZE, 1, bias=False, dtype=getattr(torch, f"float{dtype[1:]}"))
    twin = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(DECAY))
    random = np.random.default_rng(1)
    average = np.full(SIZE, np.nan, DTYPES[dtype])
    for step in range(10):
        value = random.standard_normal(SIZE).astype(DTYPES[dtype])
        with torch.no_grad():
            model.weight.copy_(torch.tensor(value))
        twin.update_parameters(model)
        average = averaged(target, AVERAGES[dtype], average, value, step)
        if step == 0:
            np.testing.assert_array_equal(average, value)
    expected = twin.module.weight.detach().numpy().ravel()
    np.testing.assert_allclose(average, expected, rtol=0, atol=1e-6 if dtype == "f32" else 1e-14)


@needs_compiler
@each_target
def test_without_a_first_value_the_average_goes_on_from_what_it_is(target: str) -> None:
    target_network, network = np.ones(SIZE), np.linspace(-1, 1, SIZE)
    for _ in range(3):
        target_network = averaged(target, POLYAK, target_network, network, 0)
    kept = DECAY**3
    np.testing.assert_allclose(target_network, kept + (1 - kept) * network, rtol=1e-12)


@needs_compiler
@each_target
def test_ranges_have_a_decay_of_their_own(target: str) -> None:
    average, value = np.zeros(SIZE), np.ones(SIZE)
    made = averaged(target, PARTLY, average, value, 3)
    expected = np.full(SIZE, 0.1)
    expected[96:128], expected[128:] = 0, 0.5
    np.testing.assert_allclose(made, expected, rtol=1e-12)


@needs_compiler
@each_target
def test_gathered_gradients_are_those_of_one_large_batch(target: str) -> None:
    random = np.random.default_rng(2)
    samples = random.standard_normal((sum(ROWS), SIZE))
    # What a state holds before the first batch does not matter.
    total, rows = np.full(SIZE, np.nan), 0
    for case in GATHERED:
        weight = int(case.node.attrs.weight)  # type: ignore[attr-defined]
        grads = samples[rows : rows + weight].mean(0)
        given = {"sum": total, "grads": grads, "rows": np.asarray(rows, "i8")}
        total = STEPPED.run(target, case, given | {"ok": np.asarray(True)})["sum"]
        rows += weight
    np.testing.assert_allclose(total, samples.mean(0), rtol=0, atol=1e-14)


@needs_compiler
@each_target
def test_a_batch_that_is_not_ok_is_not_gathered(target: str) -> None:
    total, grads = np.arange(float(SIZE)), np.full(SIZE, np.nan)
    given = {"sum": total, "grads": grads, "rows": np.asarray(25), "ok": np.asarray(False)}
    np.testing.assert_array_equal(STEPPED.run(target, GATHERED[0], given)["sum"], total)


def test_cases_without_ok_read_no_flag() -> None:
    node = AVERAGES["f64"].node
    shorter = replace(node, inputs=node.inputs[:-1])
    assert shorter.operands == ("average", "value", "step")
    (made,) = node.op.reference(node.attrs, np.ones(3), np.zeros(3), np.asarray(1), None)
    np.testing.assert_allclose(made, 0.9)
