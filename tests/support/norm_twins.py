"""Normalisations beside PyTorch's: a network of noeira and the same there, which begin alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.graph import Value
from noeira.nn import MSE, SGD, Module, NameMap, Param, Scope, Sequential, size

ROWS = 6


class Weighted(Module):
    """x · weight, element by element, for samples of three axes: its gradient shows that of what
    follows.
    """

    A = size()
    B = size()
    D = size()
    weight = Param("A", "B", "D", fans=("A", "B"))
    signature = "(A, B, D) -> (A, B, D)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return x * scope.param("weight")


class Twins:
    """A layer behind weights of the shape of a sample, and PyTorch's, which takes channels second
    where `channels_last`.
    """

    def __init__(
        self,
        layer: Any,
        theirs: Any,
        shape: tuple[int, int, int],
        target: str = "reference",
        channels_last: bool = False,
        **options: Any,
    ) -> None:
        self.torch = torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        self.theirs, self.channels_last = theirs(torch.nn).double(), channels_last
        self.shape, self.random = shape, np.random.default_rng(0)
        self.net = Sequential[Weighted[shape], layer]
        self.program = noeira.compile(
            self.net,
            loss=MSE,
            optimizer=SGD(lr=0.5),
            batch=ROWS,
            dtype="f64",
            target=target,
            **options,
        )
        random = self.random
        for name, value in self.program.params.items():
            value[...] += 0.5 * random.standard_normal(value.shape)
            if name == "0.weight":
                self.weight = torch.tensor(value.copy(), requires_grad=True)
        names = NameMap.of(self.net)
        self.names = {row.ours: row.theirs.removeprefix("1.") for row in names.rows}
        own = {name: value for name, value in self.program.params.items() if name != "0.weight"}
        state = self.theirs.state_dict()
        for name, value in own.items():
            state[self.names[name]] = torch.tensor(value.copy())
        self.theirs.load_state_dict(state)
        self.optimizer = torch.optim.SGD([self.weight, *self.theirs.parameters()], lr=0.5)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets."""
        return tuple(self.random.standard_normal((2, ROWS, *self.shape)) * 2 + 1)

    def forward(self, x: np.ndarray) -> Any:
        """What PyTorch makes of a batch."""
        seen = self.torch.tensor(x) * self.weight
        if not self.channels_last:
            return self.theirs(seen)
        return self.theirs(seen.movedim(-1, 1)).movedim(1, -1)

    def check_steps(self, count: int = 3, rtol: float = 1e-10, train: bool = True) -> None:
        """Steps of both give the same losses, parameters and running statistics; train: PyTorch's
        phase.
        """
        self.theirs.train(train)
        for _ in range(count):
            x, y = self.batch()
            loss = ((self.forward(x) - self.torch.tensor(y)) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            assert self.program.step(x, y) == pytest.approx(loss.item(), rel=rtol)
            self.check_tensors(rtol)

    def check_tensors(self, rtol: float) -> None:
        """Parameters and running statistics are the same."""
        state = self.theirs.state_dict()
        for name, value in self.program.tensors.items():
            wanted = self.weight.detach() if name == "0.weight" else state[self.names[name]]
            np.testing.assert_allclose(value, wanted.numpy(), rtol, rtol, err_msg=name)

    def check_forward(self, rtol: float = 1e-10) -> None:
        """What both make of a batch in evaluation is the same."""
        self.theirs.eval()
        x, _ = self.batch()
        made, wanted = self.program.forward(x), self.forward(x).detach().numpy()
        np.testing.assert_allclose(made, wanted, rtol, rtol)
