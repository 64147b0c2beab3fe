"""Two-hot regression against NumPy, bins counted one by one, and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_modules import module
from says import says

import noeira
from noeira.job import job_of
from noeira.nn import (
    Linear,
    Sequential,
    Symexp,
    Symlog,
    TwoHot,
    TwoHotDecode,
    TwoHotEncode,
    Weighted,
)
from noeira.passes.pipeline import resume

# A number as a row of one.
Column = module("(*) -> (*, 1)", lambda s, x: s.emit("reshape", x, shape=(*x.type.shape, 1)))
TARGETS = ("reference", "cpu", "cuda-cpu")
# The bins: how many, from, to, and whether they are those of symlog.
BINS = [(2, -1.0, 3.0, False), (41, -2.0, 2.0, False), (255, -20.0, 20.0, True)]


def symlog(x: Any) -> Any:
    return np.sign(x) * np.log1p(abs(x))


def symexp(x: Any) -> Any:
    return np.sign(x) * np.expm1(abs(x))


def numbers(count: int, low: float, high: float, logs: bool) -> np.ndarray:
    """Numbers between bins, on them, at the ends and far beyond."""
    random = np.random.default_rng(count)
    bins = np.linspace(low, high, count)
    places = np.concatenate([random.uniform(low, high, 17), bins[:3], bins[-3:], [0.0, low, high]])
    beyond = [low - 1e-3, high + 1e-3, -1e30, 1e30, -np.inf, np.inf]
    return np.concatenate([symexp(places) if logs else places, beyond])


def encoded(x: np.ndarray, count: int, low: float, high: float, logs: bool) -> np.ndarray:
    """As Hafner et al. 2023 write it: neighbours by counting, shares by distance."""
    bins, value = np.linspace(low, high, count), symlog(x) if logs else x
    below = np.clip((bins <= value[:, None]).sum(-1) - 1, 0, count - 1)
    above = np.clip(count - (bins > value[:, None]).sum(-1), 0, count - 1)
    same = below == above
    to_below = np.where(same, 1, abs(bins[below] - value))
    to_above = np.where(same, 1, abs(bins[above] - value))
    share = to_above / (to_below + to_above)
    one = np.eye(count)
    return one[below] * share[:, None] + one[above] * (1 - share)[:, None]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bins", BINS)
def test_the_encoding(bins: Any, target: str) -> None:
    count, low, high, logs = bins
    x = numbers(*bins)
    layer = TwoHotEncode.of(count, low=low, high=high, symlog=logs)
    program = noeira.compile(layer, batch=8, target=target, dtype="f64")
    *found, missing = program.forward(np.append(x, np.nan))
    np.testing.assert_allclose(found, encoded(x, *bins), atol=2e-13 * count)
    assert (np.count_nonzero(found, axis=-1) <= 2).all()
    assert np.isnan(missing).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bins", BINS)
def test_the_loss_and_its_gradient(bins: Any, target: str) -> None:
    count, low, high, logs = bins
    x = numbers(*bins)
    random = np.random.default_rng(1)
    loss = TwoHot.of(low=low, high=high, symlog=logs)
    net, rows = Linear.of(3, count, bias=False), len(x)
    program = noeira.compile(net, loss=loss, batch=rows, target=target, dtype="f64")
    given = random.standard_normal((rows, 3))
    z = given @ program.params["weight"]
    lse, t = np.log(np.exp(z).sum(-1)), encoded(x, *bins)
    got = program.gradients(given, x)
    assert got == pytest.approx((lse - (t * z).sum(-1)).mean(), rel=1e-12)
    d_z = (np.exp(z - lse[:, None]) - t) / rows
    np.testing.assert_allclose(
        program.store.view("grd", "weight"), given.T @ d_z, rtol=1e-9, atol=1e-13 * count
    )
    assert np.isnan(program.gradients(given, np.where(np.arange(rows) == 4, np.nan, x)))
    assert np.isnan(program.store.view("grd", "weight")).all()


@pytest.mark.parametrize("target", TARGETS[1:])
def test_single_precision_has_its_digits(target: str) -> None:
    bins = BINS[2]
    x = numbers(*bins).astype("f4")
    layer = TwoHotEncode.of(255, low=-20.0, high=20.0, symlog=True)
    found = noeira.compile(layer, batch=len(x), target=target).forward(x)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, encoded(x.astype("f8"), *bins), atol=1.2e-7)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bins", BINS)
def test_decoding_is_the_mean_over_the_bins(bins: Any, target: str) -> None:
    count, low, high, logs = bins
    layer = TwoHotDecode.of(low=low, high=high, symlog=logs)
    program = noeira.compile(layer, batch=7, input=(count,), target=target, dtype="f64")
    random = np.random.default_rng(2)
    z = np.concatenate([2 * random.standard_normal((9, count)), 60 * np.eye(count)[:2]])
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    mean = p @ np.linspace(low, high, count)
    np.testing.assert_allclose(program.forward(z), symexp(mean) if logs else mean, rtol=1e-11)


def test_what_is_encoded_has_itself_as_mean() -> None:
    bins = BINS[1]
    x = numbers(*bins)[:20]
    layer = TwoHotEncode.of(*bins[:1], low=bins[1], high=bins[2])
    program = noeira.compile(layer, batch=20, target="reference", dtype="f64")
    np.testing.assert_allclose(program.forward(x) @ np.linspace(-2, 2, 41), x, atol=1e-12)


@pytest.mark.parametrize("logs", [False, True])
def test_gradients_through_decoding_agree_with_pytorch(logs: bool) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    loss = TwoHot.of(low=-3.0, high=5.0)
    decode = TwoHotDecode.of(low=-2.0, high=2.0, symlog=logs)
    net = Sequential[Linear[3, 41], decode, Column, Linear[1, 17]]
    program = noeira.compile(net, loss=loss, batch=6, target="cpu", dtype="f64")
    random = np.random.default_rng(3)
    x, y = random.standard_normal((6, 3)), 3 * random.standard_normal(6)
    got = program.gradients(x, y)
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    z = torch.tensor(x) @ params["0.weight"] + params["0.bias"]
    mean = torch.softmax(z, -1) @ torch.linspace(-2, 2, 41, dtype=torch.float64)
    value = torch.sign(mean) * torch.expm1(mean.abs()) if logs else mean
    logits = value[:, None] @ params["3.weight"] + params["3.bias"]
    t = torch.tensor(encoded(y, 17, -3.0, 5.0, False))
    expected = -(t * torch.log_softmax(logits, -1)).sum(-1).mean()
    expected.backward()
    assert got == pytest.approx(expected.item(), rel=1e-12)
    for name, param in params.items():
        found = program.store.view("grd", name)
        np.testing.assert_allclose(found, param.grad.numpy(), rtol=1e-9, atol=1e-14)


def test_one_call_forward_one_backward_and_no_encoding() -> None:
    job = job_of(Linear[3, 255], loss=TwoHot.of(low=-20.0, high=20.0, symlog=True), batch=4)
    dump = job.gradients()
    graph = resume(dump)(dump).graph
    of_loss = [n for n in graph.nodes if n.origin.path == "loss" and n.launches]
    assert [n.op.name for n in of_loss] == ["two_hot", "two_hot_grad"]
    assert [str(v.type) for v in of_loss[0].outputs] == ["f32[]", "f32[4]"]


def test_weights_and_reductions() -> None:
    x, random = numbers(*BINS[1])[:12], np.random.default_rng(4)
    given, weights = random.standard_normal((12, 3)), random.random(12)
    plain = TwoHot.of(low=-2.0, high=2.0)
    z, losses = None, {}
    for loss in (plain, Weighted[plain], TwoHot.of(low=-2.0, high=2.0, reduction="sum")):
        program = noeira.compile(Linear[3, 41], loss=loss, batch=12, target="cpu", dtype="f64")
        z = given @ program.params["weight"] + program.params["bias"]
        y = (x, weights) if loss is Weighted[plain] else x
        losses[repr(loss)] = program.gradients(given, y)
    assert z is not None
    rows = np.log(np.exp(z).sum(-1)) - (encoded(x, *BINS[1]) * z).sum(-1)
    wanted = [rows.mean(), (weights * rows).sum() / weights.sum(), rows.sum()]
    assert list(losses.values()) == pytest.approx(wanted, rel=1e-12)


def test_symexp_is_the_inverse_of_symlog() -> None:
    x = np.linspace(-40, 40, 33)
    net = Sequential[Symlog, Symexp]
    program = noeira.compile(net, batch=33, input=(), target="cpu", dtype="f64")
    np.testing.assert_allclose(program.forward(x), x, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TwoHot.of(low=1.0, high=1.0),
            "TwoHot[1.0, 1.0]: low must be below high",
        ),
        (
            lambda: TwoHotDecode.of(low=2.0, high=1.0),
            "TwoHotDecode[2.0, 1.0]: low must be below high",
        ),
        (
            lambda: TwoHotEncode.of(1, low=0.0, high=1.0),
            "TwoHotEncode.of(1, low=0.0, high=1.0): BINS must be a whole number of at least 2, "
            "not 1",
        ),
        (
            lambda: noeira.compile(Linear[3, 1], loss=TwoHot[0.0, 1.0], target="reference"),
            "TwoHot[0.0, 1.0] takes logits of bins, and is given one number a row: let the layer "
            "before give one for each bin, such as 255",
        ),
    ],
)
def test_what_are_no_bins(make: Any, message: str) -> None:
    says(make, message)
