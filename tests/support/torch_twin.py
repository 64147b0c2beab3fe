"""The same small network in PyTorch, with the parameters of a program, for tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noeira
from noeira.nn import Linear, LinearTanh, Sequential

TwinNet = Sequential[LinearTanh[13, 17], Linear[17, 5]]
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")


class Twin:
    """`torch.nn.Sequential(Linear, Tanh, Linear)` that starts with the parameters of a program."""

    def __init__(self, program: noeira.Program, dtype: str = "f4") -> None:
        self.torch = torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        kind = torch.float64 if dtype == "f8" else torch.float32
        first, second = torch.nn.Linear(13, 17), torch.nn.Linear(17, 5)
        self.net = torch.nn.Sequential(first, torch.nn.Tanh(), second).to(kind)
        self.weights = dict(
            zip(NAMES, (first.weight, first.bias, second.weight, second.bias), strict=True)
        )
        with torch.no_grad():
            for name, weight in self.weights.items():
                own = program.params[name].copy()
                weight.copy_(torch.from_numpy(own.T if own.ndim == 2 else own))

    def loss(self, x: np.ndarray, y: np.ndarray) -> Any:
        """Cross-entropy of a batch, with its graph."""
        logits = self.net(self.torch.from_numpy(x))
        return self.torch.nn.functional.cross_entropy(logits, self.torch.from_numpy(y))

    def step(self, optimizer: Any, x: np.ndarray, y: np.ndarray) -> float:
        """A plain training step; gives the loss before it."""
        optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    def check(self, program: noeira.Program, rtol: float, atol: float) -> None:
        """The program has these parameters, within rounding."""
        for name, weight in self.weights.items():
            wanted = weight.detach().numpy()
            got = program.params[name]
            np.testing.assert_allclose(
                got, wanted.T if wanted.ndim == 2 else wanted, rtol, atol, err_msg=name
            )
