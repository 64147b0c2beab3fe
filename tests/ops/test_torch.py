"""PyTorch as the oracle, where it is installed: activations, losses, optimizers, trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.op import op
from noeira.nn import (
    ELU,
    GELU,
    MSE,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Clamp,
    CrossEntropy,
    GELUTanh,
    LeakyReLU,
    Linear,
    LinearReLU,
    Mish,
    ReLU,
    RMSprop,
    Sequential,
    Sigmoid,
    SiLU,
    SoftCrossEntropy,
    Softplus,
    Tanh,
)
from noeira.tracing import trace


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


# A layer, and what it is in `torch.nn.functional`.
ACTIVATIONS = [
    (ReLU, lambda F, x: F.relu(x)),
    (Tanh, lambda F, x: F.tanh(x)),
    (Sigmoid, lambda F, x: F.sigmoid(x)),
    (SiLU, lambda F, x: F.silu(x)),
    (GELU, lambda F, x: F.gelu(x)),
    (GELUTanh, lambda F, x: F.gelu(x, approximate="tanh")),
    (Mish, lambda F, x: F.mish(x)),
    (ELU, lambda F, x: F.elu(x)),
    (LeakyReLU, lambda F, x: F.leaky_relu(x)),
    (Softplus, lambda F, x: F.softplus(x, threshold=1e9)),
    (Clamp.of(low=-0.5, high=0.75), lambda F, x: x.clamp(-0.5, 0.75)),
]


@pytest.mark.parametrize(("layer", "theirs"), ACTIVATIONS, ids=[repr(a) for a, _ in ACTIVATIONS])
def test_activations_and_their_gradients(torch: Any, layer: Any, theirs: Any) -> None:
    F = torch.nn.functional
    net = Sequential[Linear[6, 33], layer, Linear[33, 3]]
    random = np.random.default_rng(0)
    x, y = 3 * random.standard_normal((17, 6)), random.integers(0, 3, 17)
    program = noeira.compile(net, loss=CrossEntropy, batch=17, dtype="f64")
    loss = program.gradients(x, y)
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    hidden = torch.tensor(x) @ params["0.weight"] + params["0.bias"]
    logits = theirs(F, hidden) @ params["2.weight"] + params["2.bias"]
    expected = F.cross_entropy(logits, torch.tensor(y))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for name, param in params.items():
        got = program.store.view("grd", name)
        np.testing.assert_allclose(got, param.grad.numpy(), rtol=1e-9, atol=1e-13)


OPTIMIZERS = [
    (SGD(lr=0.1), lambda torch, p: torch.optim.SGD(p, lr=0.1)),
    (
        SGD(lr=0.1, momentum=0.9, dampening=0.3),
        lambda torch, p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    ),
    (
        SGD(lr=0.1, momentum=0.9, nesterov=True),
        lambda torch, p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ),
    (Adam(lr=1e-2, eps=1e-6), lambda torch, p: torch.optim.Adam(p, lr=1e-2, eps=1e-6)),
    (
        Adam(lr=1e-2, weight_decay=0.1),
        lambda torch, p: torch.optim.Adam(
            [{"params": p[:2], "weight_decay": 0.1}, {"params": p[2:]}], lr=1e-2
        ),
    ),
    (
        AdamW(lr=1e-2, weight_decay=0.1),
        lambda torch, p: torch.optim.AdamW(
            [{"params": p[:2], "weight_decay": 0.1}, {"params": p[2:], "weight_decay": 0.0}],
            lr=1e-2,
        ),
    ),
    (
        RMSprop(lr=1e-3, momentum=0.9, centered=True),
        lambda torch, p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
    ),
    (
        Adagrad(lr=0.1, lr_decay=0.1),
        lambda torch, p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), OPTIMIZERS, ids=[repr(o) for o, _ in OPTIMIZERS])
def test_twenty_steps_of_each_optimizer(torch: Any, ours: Any, theirs: Any) -> None:
    F = torch.nn.functional
    net = Sequential[LinearReLU[6, 33], Linear[33, 3]]
    random = np.random.default_rng(1)
    x, y = random.standard_normal((17, 6)), random.integers(0, 3, 17)
    program = noeira.compile(net, loss=CrossEntropy, optimizer=ours, batch=17, dtype="f64")
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    # Decayed parameters first, as in the layout.
    optimizer = theirs(torch, list(params.values()))
    for _ in range(20):
        optimizer.zero_grad()
        hidden = torch.relu(torch.tensor(x) @ params["0.weight"] + params["0.bias"])
        expected = F.cross_entropy(hidden @ params["1.weight"] + params["1.bias"], torch.tensor(y))
        expected.backward()
        optimizer.step()
        assert program.step(x, y) == pytest.approx(expected.item(), rel=1e-10)
    for name, param in params.items():
        np.testing.assert_allclose(program.params[name], param.detach().numpy(), rtol=1e-8)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses(torch: Any, smoothing: float) -> None:
    F = torch.nn.functional
    random = np.random.default_rng(2)
    x, y = random.standard_normal((17, 6)), random.integers(0, 5, 17)
    soft = random.dirichlet(np.ones(5), 17)
    real = random.standard_normal((17, 5))
    cases = [
        (
            CrossEntropy.of(smoothing=smoothing),
            y,
            lambda z: F.cross_entropy(z, torch.tensor(y), label_smoothing=smoothing),
        ),
        (
            SoftCrossEntropy.of(smoothing=smoothing),
            soft,
            lambda z: F.cross_entropy(z, torch.tensor(soft), label_smoothing=smoothing),
        ),
        (MSE, real, lambda z: F.mse_loss(z, torch.tensor(real))),
    ]
    for loss, target, theirs in cases:
        program = noeira.compile(Linear[6, 5], loss=loss, batch=17, dtype="f64")
        got = program.gradients(x, target)
        weight = torch.tensor(program.params["weight"].copy(), requires_grad=True)
        expected = theirs(torch.tensor(x) @ weight + torch.tensor(program.params["bias"].copy()))
        expected.backward()
        assert got == pytest.approx(expected.item(), rel=1e-12)
        got_grad = program.store.view("grd", "weight")
        np.testing.assert_allclose(got_grad, weight.grad.numpy(), rtol=1e-10, atol=1e-15)


def test_infinite_and_missing_numbers_behave_as_there(torch: Any) -> None:
    F = torch.nn.functional
    values = np.array(
        [
            [0.0, np.inf, -1.0],
            [-np.inf, 0.0, 1.0],
            [np.nan, 0.0, 1.0],
            [-np.inf] * 3,
            [1e38, -1e38, 0.0],
        ],
        "f4",
    )
    target = np.array([0, 1, 1, 2, 0])
    # Without GELU: PyTorch's vectorised form gives NaN at infinity, where the function is infinite.
    for layer, theirs in ACTIVATIONS[:4]:
        got = noeira.compile(layer, batch=5, input=(3,)).forward(values)
        expected = theirs(F, torch.tensor(values)).numpy()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=repr(layer))
    identity = noeira.compile(Linear[3, 3], loss=CrossEntropy, batch=1)
    identity.params["weight"][...] = np.eye(3)
    for row, label in zip(values, target, strict=True):
        # A product with the identity mixes infinities, so the logits are taken as they come out.
        logits = identity.forward(row[None])
        expected = F.cross_entropy(torch.tensor(logits), torch.tensor([label])).item()
        got = identity.gradients(row[None], np.array([label]))
        assert got == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_slopes_at_kinks_and_under_infinite_cotangents(torch: Any) -> None:
    F = torch.nn.functional
    x = np.array([[-1.0, 0.0, 1.0, -0.5, 0.75, np.nan]], "f8")
    for layer, theirs in ((ReLU, lambda F, x: F.relu(x)), *ACTIVATIONS[8:9], *ACTIVATIONS[10:]):
        slope = op(f"{trace(layer, input=(6,)).nodes[0].op.name}.d0")
        node = trace(layer, input=(6,), dtype="f64").nodes[0]
        for d in (1.0, np.inf, np.nan):
            theirs_x = torch.tensor(x, requires_grad=True)
            theirs(F, theirs_x).backward(torch.full((1, 6), d, dtype=torch.float64))
            read = x if "a.x" in slope.operands else theirs(F, torch.tensor(x)).numpy()
            (got,) = slope.reference(node.attrs, np.full((1, 6), d), read)
            np.testing.assert_array_equal(got, theirs_x.grad.numpy(), err_msg=f"{layer!r} {d}")
