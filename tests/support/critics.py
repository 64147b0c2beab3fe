"""Critics, and what PyTorch and finite differences say of the gradients of their penalties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import noeira
from noeira.ir.graph import Value
from noeira.nn import (
    GELU,
    GradientPenalty,
    InputGradient,
    Linear,
    LinearTanh,
    Losses,
    Module,
    ReLU,
    Residual,
    Scope,
    Sequential,
    SiLU,
    Tanh,
    Wasserstein,
)
from noeira.nn.combinators.fused import Fused


class Softmax(Module):
    """Softmax along the last axis, as a layer of one's own."""

    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("softmax", x)


# The same critics with a kernel for each layer, and with fused types.
APART = Sequential[
    *(Linear[3, 7], Tanh, Linear[7, 6], GELU, Residual[Sequential[Linear[6, 6], SiLU]]),
    *(Linear[6, 9], ReLU, Linear[9, 5], Softmax, Linear[5, 1]),
]
FUSED = Sequential[
    *(LinearTanh[3, 7], Fused[Linear[7, 6], GELU], Residual[Fused[Linear[6, 6], SiLU]]),
    *(Fused[Linear[6, 9], ReLU], Linear[9, 5], Softmax, Linear[5, 1]),
]
ROWS = 11
PENALTIES = {
    "WGAN-GP": GradientPenalty,
    "R1": GradientPenalty.of(target=0.0, coefficient=2.5),
}


def of_torch(torch: Any, params: dict[str, Any], x: Any) -> Any:
    """What `APART` gives."""
    F = torch.nn.functional
    w = list(params.values())
    h = torch.tanh(x @ w[0] + w[1])
    h = F.gelu(h @ w[2] + w[3])
    h = h + F.silu(h @ w[4] + w[5])
    h = torch.relu(h @ w[6] + w[7])
    h = torch.softmax(h @ w[8] + w[9], -1)
    return h @ w[10] + w[11]


def penalty_of_torch(torch: Any, kind: Any, score: Any, x: Any) -> Any:
    """The penalty of the gradient of scores in x, to be differentiated again."""
    (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    squares = (g * g).sum(-1)
    target, coefficient = kind.TARGET, kind.COEFFICIENT
    distance = squares if target == 0 else (squares.sqrt() - target) ** 2
    return coefficient * distance.mean()


def data(seed: int = 0, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Samples, and which of them are real (−1) and generated (+1)."""
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, 3)), np.where(random.random((rows, 1)) < 0.5, -1.0, 1.0)


def program_of(critic: Any, penalty: Any, target: str, dtype: Any, **options: Any) -> Any:
    """A critic with its gradient, to be trained, its parameters far from special values."""
    program = noeira.compile(
        InputGradient[critic],
        loss=Losses[Wasserstein, penalty],
        batch=options.pop("batch", ROWS),
        target=target,
        dtype=dtype,
        **options,
    )
    random = np.random.default_rng(7)
    for value in program.params.values():
        value[...] = random.standard_normal(value.shape) / np.sqrt(value.shape[0])
    return program


def gradients_of(program: Any) -> dict[str, np.ndarray]:
    """The gradients of all parameters, after `gradients`."""
    return {name: program.store.view("grd", name).copy() for name in program.params}


def differences(
    program: Any, loss: Callable[[], float], step: float = 1e-5
) -> dict[str, np.ndarray]:
    """Central differences of a loss in every parameter."""
    found = {name: np.zeros(value.shape) for name, value in program.params.items()}
    for name, value in program.params.items():
        for place in np.ndindex(value.shape):
            before = value[place]
            value[place] = before + step
            above = loss()
            value[place] = before - step
            found[name][place] = (above - loss()) / (2 * step)
            value[place] = before
    return found
