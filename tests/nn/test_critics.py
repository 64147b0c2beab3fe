"""Critics under gradient penalties, against PyTorch's double backward, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from critics import (
    APART,
    FUSED,
    PENALTIES,
    data,
    gradients_of,
    of_torch,
    penalty_of_torch,
    program_of,
)

import noeira
from noeira.ir.graph import Value
from noeira.nn import (
    Adam,
    GradientPenalty,
    InputGradient,
    Linear,
    Losses,
    Module,
    Scope,
    Sequential,
    Tanh,
    Wasserstein,
)

KERNELS = ("cpu", "cuda-cpu")


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize(
    ("name", "target", "critic"),
    [
        ("WGAN-GP", "reference", APART),
        *(("WGAN-GP", target, critic) for target in KERNELS for critic in (APART, FUSED)),
        *(("R1", target, FUSED) for target in KERNELS),
    ],
)
def test_double_backward(torch: Any, name: str, target: str, critic: Any) -> None:
    program = program_of(critic, PENALTIES[name], target, "f64")
    x, sides = data()
    loss = program.gradients(x, sides)
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    given = torch.tensor(x, requires_grad=True)
    # By position in both: `APART` has its layers' numbers, `FUSED` others.
    ordered = dict(sorted(params.items(), key=lambda item: order(item[0])))
    score = of_torch(torch, ordered, given)
    expected = (score * torch.tensor(sides)).mean()
    expected = expected + penalty_of_torch(torch, PENALTIES[name], score, given)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for key, value in gradients_of(program).items():
        wanted = params[key].grad.numpy()
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12, err_msg=key)


def order(path: str) -> tuple[Any, ...]:
    """Where a parameter stands in the network: layers in order, a weight before its bias."""
    *places, name = path.split(".")
    return (*map(int, places[:1]), name != "weight")


@pytest.mark.parametrize("target", KERNELS)
def test_single_precision_is_near_the_double(target: str) -> None:
    x, sides = data(3)
    found = list[dict[str, np.ndarray]]()
    for dtype, where in (("f32", target), ("f64", "reference")):
        program = program_of(FUSED, GradientPenalty, where, dtype)
        kind = {"f32": "f4", "f64": "f8"}[dtype]
        program.gradients(x.astype(kind), sides.astype(kind))
        found.append(gradients_of(program))
    for key, wanted in found[1].items():
        np.testing.assert_allclose(found[0][key], wanted, rtol=1e-4, atol=1e-5 * abs(wanted).max())


class Critic(Module):
    """Scores of some points, and the gradient at others, of the same critic."""

    signature = "(3), (3) -> (1), (3)"
    scored = InputGradient[Sequential[Linear[3, 16], Tanh, Linear[16, 16], Tanh, Linear[16, 1]]]

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("critic", cls.scored),)

    @classmethod
    def trace(cls, scope: Scope, x: Value, between: Value) -> tuple[Value, Value]:
        critic = scope.child("critic", cls.scored)
        return critic.run(x)[0], critic.run(between)[1]


@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-cpu"])
def test_twenty_steps_of_a_critic(torch: Any, target: str) -> None:
    program = noeira.compile(
        Critic,
        loss=Losses[Wasserstein, GradientPenalty],
        optimizer=Adam(lr=1e-2, eps=1e-6),
        batch=8,
        target=target,
        dtype="f64",
    )
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    w = [params[f"critic.{layer}.{name}"] for layer in (0, 2, 4) for name in ("weight", "bias")]

    def critic(x: Any) -> Any:
        h = torch.tanh(x @ w[0] + w[1])
        return torch.tanh(h @ w[2] + w[3]) @ w[4] + w[5]

    optimizer = torch.optim.Adam(list(params.values()), lr=1e-2, eps=1e-6)
    random = np.random.default_rng(1)
    sides = np.repeat([[-1.0], [1.0]], 4, axis=0)
    for _ in range(20):
        real, made = random.standard_normal((4, 3)) + 1, random.standard_normal((4, 3))
        share = random.random((8, 1))
        between = share * np.tile(real, (2, 1)) + (1 - share) * np.tile(made, (2, 1))
        x, at = torch.tensor(np.concatenate([real, made])), torch.tensor(between)
        at.requires_grad_()
        optimizer.zero_grad()
        expected = (critic(x) * torch.tensor(sides)).mean()
        expected = expected + penalty_of_torch(torch, GradientPenalty, critic(at), at)
        expected.backward()
        optimizer.step()
        assert program.step((x.numpy(), between), sides) == pytest.approx(expected.item(), rel=1e-9)
    for name, param in params.items():
        np.testing.assert_allclose(program.params[name], param.detach().numpy(), rtol=1e-7)
